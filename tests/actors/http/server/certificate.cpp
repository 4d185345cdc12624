#include "tests/actors/http/server/certificate.hpp"

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <cstdio>
#include <memory>
#include <stdexcept>

namespace kcx::http {

namespace {

template <class T, void (*Free)(T*)>
struct releaser {
  void operator()(T* object) const { Free(object); }
};
using key_ptr = std::unique_ptr<EVP_PKEY, releaser<EVP_PKEY, EVP_PKEY_free>>;
using certificate_ptr = std::unique_ptr<X509, releaser<X509, X509_free>>;

void add_extension(X509* certificate, int kind, const char* value) {
  std::unique_ptr<X509_EXTENSION, releaser<X509_EXTENSION, X509_EXTENSION_free>> extension{
    ::X509V3_EXT_conf_nid(nullptr, nullptr, kind, value)};
  if (!extension || ::X509_add_ext(certificate, extension.get(), -1) != 1)
    throw std::runtime_error{"cannot add a certificate extension"};
}

template <class Write>
void write_file(const std::string& name, Write write) {
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> file{std::fopen(name.c_str(), "w"), &std::fclose};
  if (!file || write(file.get()) != 1)
    throw std::runtime_error{"cannot write " + name};
}

} // namespace

void write_certificate(const std::string& certificate_file, const std::string& key_file, const std::string& name) {
  key_ptr key{::EVP_EC_gen("P-256")};
  certificate_ptr certificate{::X509_new()};
  if (!key || !certificate)
    throw std::runtime_error{"cannot make a key"};
  ::X509_set_version(certificate.get(), 2);
  ::ASN1_INTEGER_set(::X509_get_serialNumber(certificate.get()), 1);
  ::X509_gmtime_adj(::X509_getm_notBefore(certificate.get()), -60);
  ::X509_gmtime_adj(::X509_getm_notAfter(certificate.get()), 3600);
  ::X509_set_pubkey(certificate.get(), key.get());
  auto* subject = ::X509_get_subject_name(certificate.get());
  ::X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_ASC, reinterpret_cast<const unsigned char*>(name.c_str()), -1,
                               -1, 0);
  ::X509_set_issuer_name(certificate.get(), subject);
  add_extension(certificate.get(), NID_subject_alt_name, "IP:127.0.0.1");
  add_extension(certificate.get(), NID_basic_constraints, "critical,CA:TRUE");
  if (::X509_sign(certificate.get(), key.get(), ::EVP_sha256()) == 0)
    throw std::runtime_error{"cannot sign the certificate"};
  write_file(key_file, [&](std::FILE* file) {
    return ::PEM_write_PrivateKey(file, key.get(), nullptr, nullptr, 0, nullptr, nullptr);
  });
  write_file(certificate_file, [&](std::FILE* file) { return ::PEM_write_X509(file, certificate.get()); });
}

void write_encrypted_key(const std::string& key_file, const std::string& passphrase) {
  const key_ptr key{::EVP_EC_gen("P-256")};
  write_file(key_file, [&](std::FILE* file) {
    return ::PEM_write_PrivateKey(file, key.get(), ::EVP_aes_256_cbc(),
                                  reinterpret_cast<const unsigned char*>(passphrase.data()),
                                  static_cast<int>(passphrase.size()), nullptr, nullptr);
  });
}

} // namespace kcx::http
