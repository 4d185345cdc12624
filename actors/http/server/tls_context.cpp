#include "actors/http/server/tls_context.hpp"

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509err.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string>
#include <utility>

namespace kcx::http {

namespace ssl = boost::asio::ssl;

namespace {

/// Why the file cannot be read; empty if it can. OpenSSL's own words for that are few.
std::string read_failure(const std::string& file) {
  auto* const opened = std::fopen(file.c_str(), "re");
  if (opened == nullptr)
    return std::strerror(errno);
  const bool read = std::fgetc(opened) != EOF || std::ferror(opened) == 0;
  const auto number = errno;
  std::fclose(opened);
  return read ? "" : std::strerror(number);
}

bool is_reason(const boost::system::error_code& ec, int library, int reason) {
  const auto code = static_cast<unsigned long>(ec.value());
  return ERR_GET_LIB(code) == library && ERR_GET_REASON(code) == reason;
}

/// The file is no PEM, or PEM of something else.
bool holds_nothing(const boost::system::error_code& ec) {
  return is_reason(ec, ERR_LIB_PEM, PEM_R_NO_START_LINE) ||
         ERR_GET_LIB(static_cast<unsigned long>(ec.value())) == ERR_LIB_OSSL_DECODER;
}

error refused(const char* setting, const std::string& file, const std::string& cause) {
  return {ec::invalid_setting, std::string{setting} + ": cannot use \"" + file + "\": " + cause, {}};
}

} // namespace

expected<std::shared_ptr<ssl::context>> load_tls_context(const tls_options& files) {
  auto context = std::make_shared<ssl::context>(ssl::context::tls_server);
  ::SSL_CTX_set_min_proto_version(context->native_handle(), TLS1_2_VERSION);
  constexpr auto certificate = "tls-certificate";
  constexpr auto key = "tls-key";
  for (const auto& [setting, file] : {std::pair{certificate, &files.certificate_file}, {key, &files.private_key_file}})
    if (const auto why = read_failure(*file); !why.empty())
      return refused(setting, *file, why);
  boost::system::error_code failed;
  context->use_certificate_chain_file(files.certificate_file, failed);
  if (failed)
    return refused(certificate, files.certificate_file,
                   holds_nothing(failed) ? "it holds no certificate in PEM form" : failed.message());
  // Without this OpenSSL asks for it on the terminal.
  bool encrypted = false;
  context->set_password_callback([&encrypted](std::size_t, ssl::context::password_purpose) {
    encrypted = true;
    return std::string{};
  });
  context->use_private_key_file(files.private_key_file, ssl::context::pem, failed);
  context->set_password_callback([](std::size_t, ssl::context::password_purpose) { return std::string{}; });
  if (!failed)
    return context;
  if (encrypted)
    return refused(key, files.private_key_file, "it is encrypted; take a key without a passphrase");
  if (is_reason(failed, ERR_LIB_X509, X509_R_KEY_VALUES_MISMATCH))
    return refused(key, files.private_key_file,
                   "it is not the key of the certificate in \"" + files.certificate_file + '"');
  return refused(key, files.private_key_file,
                 holds_nothing(failed) ? "it holds no private key in PEM form" : failed.message());
}

} // namespace kcx::http
