#include "actors/http/message/message.hpp"

#include <algorithm>

namespace kcx::http {

namespace {

constexpr char lower(char c) noexcept {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

constexpr int hex_value(char c) noexcept {
  if (c >= '0' && c <= '9')
    return c - '0';
  if (lower(c) >= 'a' && lower(c) <= 'f')
    return lower(c) - 'a' + 10;
  return -1;
}

constexpr bool is_unreserved(char c) noexcept {
  return (c >= '0' && c <= '9') || (lower(c) >= 'a' && lower(c) <= 'z') || c == '-' || c == '.' || c == '_' || c == '~';
}

void append_clean(std::string& to, std::string_view text) {
  for (char c : text)
    to.push_back(c == '\r' || c == '\n' || c == '\0' ? ' ' : c);
}

} // namespace

// -- header_fields -----------------------------------------------------------

void header_fields::add(std::string_view name, std::string_view value) {
  entry next{};
  next.name_at = static_cast<std::uint32_t>(text_.size());
  next.name_size = static_cast<std::uint32_t>(name.size());
  append_clean(text_, name);
  next.value_at = static_cast<std::uint32_t>(text_.size());
  next.value_size = static_cast<std::uint32_t>(value.size());
  append_clean(text_, value);
  entries_.push_back(next);
}

void header_fields::set(std::string_view name, std::string_view value) {
  header_fields rest;
  for (std::size_t i = 0; i < size(); ++i)
    if (!same_text(at(i).name, name))
      rest.add(at(i).name, at(i).value);
  rest.add(name, value);
  *this = std::move(rest);
}

std::optional<std::string_view> header_fields::find(std::string_view name) const noexcept {
  for (std::size_t i = 0; i < size(); ++i)
    if (auto [key, value] = at(i); same_text(key, name))
      return trimmed(value);
  return std::nullopt;
}

std::size_t header_fields::count(std::string_view name) const noexcept {
  std::size_t found = 0;
  for (std::size_t i = 0; i < size(); ++i)
    found += same_text(at(i).name, name) ? 1 : 0;
  return found;
}

header_fields::field header_fields::at(std::size_t index) const noexcept {
  const auto& e = entries_[index];
  std::string_view text = text_;
  return {text.substr(e.name_at, e.name_size), text.substr(e.value_at, e.value_size)};
}

std::optional<std::string_view> request::parameter(std::string_view name) const noexcept {
  for (const auto& [key, value] : query)
    if (key == name)
      return value;
  return std::nullopt;
}

// -- responses ---------------------------------------------------------------

std::string_view reason_phrase(unsigned status) noexcept {
  switch (status) {
  case 100: return "Continue";
  case 200: return "OK";
  case 201: return "Created";
  case 202: return "Accepted";
  case 204: return "No Content";
  case 206: return "Partial Content";
  case 302: return "Found";
  case 303: return "See Other";
  case 304: return "Not Modified";
  case 400: return "Bad Request";
  case 401: return "Unauthorized";
  case 403: return "Forbidden";
  case 404: return "Not Found";
  case 405: return "Method Not Allowed";
  case 406: return "Not Acceptable";
  case 408: return "Request Timeout";
  case 409: return "Conflict";
  case 410: return "Gone";
  case 412: return "Precondition Failed";
  case 413: return "Content Too Large";
  case 414: return "URI Too Long";
  case 415: return "Unsupported Media Type";
  case 416: return "Range Not Satisfiable";
  case 417: return "Expectation Failed";
  case 421: return "Misdirected Request";
  case 422: return "Unprocessable Content";
  case 429: return "Too Many Requests";
  case 431: return "Request Header Fields Too Large";
  case 500: return "Internal Server Error";
  case 501: return "Not Implemented";
  case 503: return "Service Unavailable";
  case 504: return "Gateway Timeout";
  case 505: return "HTTP Version Not Supported";
  case 507: return "Insufficient Storage";
  default: return "Unknown";
  }
}

response json_response(unsigned status, std::string document) {
  response result;
  result.status = status;
  result.headers.add("Content-Type", "application/json");
  result.body = std::move(document);
  return result;
}

response text_response(unsigned status, std::string text) {
  response result;
  result.status = status;
  result.headers.add("Content-Type", "text/plain; charset=utf-8");
  result.body = std::move(text);
  return result;
}

// -- text --------------------------------------------------------------------

bool same_text(std::string_view a, std::string_view b) noexcept {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](char x, char y) { return lower(x) == lower(y); });
}

std::string_view trimmed(std::string_view text) noexcept {
  constexpr std::string_view blanks = " \t";
  auto first = text.find_first_not_of(blanks);
  if (first == std::string_view::npos)
    return {};
  return text.substr(first, text.find_last_not_of(blanks) - first + 1);
}

std::optional<std::string> percent_decoded(std::string_view text, bool plus_is_space) {
  std::string result;
  result.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    char c = text[i];
    if (c == '+' && plus_is_space)
      c = ' ';
    if (c == '%') {
      if (i + 2 >= text.size())
        return std::nullopt;
      int high = hex_value(text[i + 1]);
      int low = hex_value(text[i + 2]);
      if (high < 0 || low < 0)
        return std::nullopt;
      c = static_cast<char>(high * 16 + low);
      i += 2;
    }
    if (c == '\0')
      return std::nullopt;
    result.push_back(c);
  }
  return result;
}

std::string percent_encoded(std::string_view text) {
  constexpr std::string_view digits = "0123456789ABCDEF";
  std::string result;
  for (char c : text) {
    if (is_unreserved(c)) {
      result.push_back(c);
      continue;
    }
    auto byte = static_cast<unsigned char>(c);
    result.push_back('%');
    result.push_back(digits[byte >> 4]);
    result.push_back(digits[byte & 15]);
  }
  return result;
}

} // namespace kcx::http
