/// A self-signed certificate for 127.0.0.1, made while the test runs: nothing in the repository can expire.
#pragma once

#include <string>

namespace kcx::http {

/// Writes a new key and a certificate with this common name as PEM files; valid for an hour.
void write_certificate(const std::string& certificate_file, const std::string& key_file, const std::string& name);

/// Writes a private key that only the passphrase opens.
void write_encrypted_key(const std::string& key_file, const std::string& passphrase);

} // namespace kcx::http
