#include "actors/http/server/request_reader.hpp"

#include <boost/beast/http/error.hpp>

#include <algorithm>
#include <charconv>
#include <limits>
#include <utility>

namespace kcx::http {

namespace bhttp = boost::beast::http;

namespace {

std::string_view as_std(boost::beast::string_view text) {
  return {text.data(), text.size()};
}

// Field values may hold obs-text (0x80 and up) but no control character except the tab.
bool is_control(char c) {
  auto byte = static_cast<unsigned char>(c);
  return (byte < 0x20 && c != '\t') || byte == 0x7f;
}

std::optional<query_parameters> parsed_query(std::string_view text) {
  query_parameters result;
  while (!text.empty()) {
    auto pair = text.substr(0, text.find('&'));
    text.remove_prefix(std::min(text.size(), pair.size() + 1));
    if (pair.empty())
      continue;
    auto equals = std::min(pair.find('='), pair.size());
    auto name = percent_decoded(pair.substr(0, equals), true);
    auto value = percent_decoded(pair.substr(std::min(pair.size(), equals + 1)), true);
    if (!name || !value)
      return std::nullopt;
    result.emplace_back(std::move(*name), std::move(*value));
  }
  return result;
}

} // namespace

request_reader::step request_reader::refuse(const problem_kind& kind, std::string detail) {
  refusal_ = refusal{kind, std::move(detail)};
  return step::refused;
}

// -- header ------------------------------------------------------------------

request_reader::step request_reader::read_head(std::string_view input, std::size_t& used) {
  used = 0;
  std::size_t end = 0;
  if (auto result = scan(input, end); result != step::done)
    return result;
  used = end;
  return parse(input.substr(skipped_, end - skipped_));
}

// Finds the empty line that ends the header, looking at each byte once, and refuses at the first byte that no header
// may hold: a client that speaks something else entirely hears of it at once, not after the timeout.
request_reader::step request_reader::scan(std::string_view input, std::size_t& end) {
  // RFC 9112 §2.2: empty lines before the request line are skipped (some clients send one after a body).
  while (scanned_ == skipped_ && skipped_ < 8 && input.substr(scanned_, 2) == "\r\n")
    scanned_ = line_start_ = skipped_ += 2;
  const auto line_limit = limits_.header_bytes / 8;
  for (; scanned_ < input.size(); ++scanned_) {
    if (scanned_ - skipped_ >= limits_.header_bytes)
      return refuse(kinds::header_too_large,
                    "The header is longer than " + std::to_string(limits_.header_bytes) + " bytes.");
    char c = input[scanned_];
    if (line_start_ == skipped_ && scanned_ - skipped_ >= line_limit && c != '\r')
      return refuse(kinds::target_too_long,
                    "The request line is longer than " + std::to_string(line_limit) + " bytes.");
    if (c == '\r') {
      if (scanned_ + 1 == input.size())
        return step::more;
      if (input[scanned_ + 1] != '\n')
        return refuse(kinds::malformed_request, "The header holds a carriage return that ends no line.");
      bool empty_line = scanned_ == line_start_;
      scanned_ += 1;
      line_start_ = scanned_ + 1;
      if (empty_line) {
        end = line_start_;
        return step::done;
      }
    } else if (is_control(c)) {
      return refuse(kinds::malformed_request, "The header holds a control character.");
    } else if ((c == ' ' || c == '\t') && scanned_ == line_start_) {
      return refuse(kinds::malformed_request, "A header line begins with white space (line folding is obsolete).");
    }
  }
  return step::more;
}

request_reader::step request_reader::parse(std::string_view head) {
  auto line = head.substr(0, head.find('\r'));
  parser_.emplace();
  parser_->header_limit(static_cast<std::uint32_t>(limits_.header_bytes + 1));
  parser_->body_limit(boost::none);
  boost::system::error_code ec;
  parser_->put(boost::asio::buffer(head.data(), head.size()), ec);
  if (ec == bhttp::error::bad_version && line.find(" HTTP/") != std::string_view::npos)
    return refuse(kinds::unsupported_version, "Only HTTP/1.0 and HTTP/1.1 are understood.");
  if (ec || !parser_->is_header_done())
    return refuse(kinds::malformed_request, "The header is no HTTP/1.1 request: " + ec.message() + ".");
  if (parser_->get().version() / 10 != 1)
    return refuse(kinds::unsupported_version, "Only HTTP/1.0 and HTTP/1.1 are understood.");
  for (auto take : {&request_reader::take_fields, &request_reader::take_framing, &request_reader::take_target,
                    &request_reader::take_host, &request_reader::check_type})
    if (auto result = (this->*take)(); result != step::done)
      return result;
  return step::done;
}

request_reader::step request_reader::take_fields() {
  const auto& message = parser_->get();
  request_.method = as_std(message.method_string());
  request_.target = as_std(message.target());
  for (const auto& field : message)
    request_.headers.add(as_std(field.name_string()), as_std(field.value()));
  if (request_.headers.size() > limits_.header_fields)
    return refuse(kinds::header_too_large,
                  "There are more than " + std::to_string(limits_.header_fields) + " header fields.");
  http_1_0_ = message.version() == 10;
  keep_alive_ = message.keep_alive();
  return step::done;
}

request_reader::step request_reader::take_framing() {
  const auto& headers = request_.headers;
  auto length = headers.find("Content-Length");
  auto encoding = headers.find("Transfer-Encoding");
  if (headers.count("Content-Length") > 1 || headers.count("Transfer-Encoding") > 1 || (length && encoding))
    return refuse(kinds::malformed_request, "The header tells the body's length more than once.");
  if (encoding) {
    if (!same_text(*encoding, "chunked") || http_1_0_)
      return refuse(kinds::malformed_request, "The only Transfer-Encoding understood is chunked, in HTTP/1.1.");
    chunked_ = true;
  }
  if (length) {
    auto [end, problem] = std::from_chars(length->data(), length->data() + length->size(), content_length_);
    if (problem != std::errc{} || end != length->data() + length->size() || length->empty())
      return refuse(kinds::malformed_request, "The Content-Length is not a number.");
    remaining_ = content_length_;
  }
  if (auto expect = headers.find("Expect"); expect && !http_1_0_) {
    if (!same_text(*expect, "100-continue"))
      return refuse(kinds::expectation_failed, "The only expectation understood is 100-continue.");
    expects_continue_ = chunked_ || remaining_ > 0;
  }
  return step::done;
}

request_reader::step request_reader::take_target() {
  std::string_view target = request_.target;
  for (std::string_view scheme : {"http://", "https://"}) {
    if (!same_text(target.substr(0, scheme.size()), scheme))
      continue;
    target.remove_prefix(scheme.size());
    auto slash = std::min(target.find_first_of("/?"), target.size());
    authority_ = target.substr(0, slash);
    target.remove_prefix(slash);
    if (authority_.empty())
      return refuse(kinds::malformed_request, "The request target names no host.");
  }
  if (target == "*" && request_.method == "OPTIONS") {
    request_.path = "*";
    return step::done;
  }
  auto question = std::min(target.find('?'), target.size());
  auto path = target.substr(0, question);
  if (path.empty() && !authority_.empty())
    path = "/";
  if (path.substr(0, 1) != "/" || target.find('#') != std::string_view::npos ||
      std::any_of(target.begin(), target.end(), [](char c) { return static_cast<unsigned char>(c) > 0x7e; }))
    return refuse(kinds::malformed_request, "The request target is not a path.");
  auto decoded = percent_decoded(path, false);
  auto query = parsed_query(target.substr(std::min(target.size(), question + 1)));
  if (!decoded || !query)
    return refuse(kinds::malformed_request, "The request target holds a broken percent escape or a NUL.");
  request_.path = std::move(*decoded);
  request_.query = std::move(*query);
  return step::done;
}

request_reader::step request_reader::take_host() {
  auto host = request_.headers.find("Host");
  if (request_.headers.count("Host") > 1 || (!host && !http_1_0_))
    return refuse(kinds::malformed_request, "A request needs exactly one Host field.");
  if (host && authority_.empty())
    authority_ = *host;
  if (host && authority_.empty())
    return refuse(kinds::malformed_request, "The Host field is empty.");
  return step::done;
}

// What reads the first and what reads the last would take two different requests for one (RFC 9110 §5.3).
request_reader::step request_reader::check_type() {
  if (request_.headers.count("Content-Type") > 1)
    return refuse(kinds::malformed_request, "There is more than one Content-Type field.");
  return step::done;
}

// -- body --------------------------------------------------------------------

request_reader::step request_reader::limit_body(std::size_t bytes, std::string advice) {
  body_limit_ = bytes;
  body_advice_ = std::move(advice);
  return content_length_ > bytes ? refuse_body() : step::done;
}

request_reader::step request_reader::refuse_body() {
  return refuse(kinds::body_too_large, "The body is longer than " + std::to_string(body_limit_) + " bytes." +
                                         (body_advice_.empty() ? "" : " " + body_advice_));
}

void request_reader::stream_body() noexcept {
  streamed_ = true;
  body_limit_ = std::numeric_limits<std::size_t>::max();
}

std::size_t request_reader::body_size() const noexcept {
  return chunked_ && !parser_->is_done() ? parser_->get().body().size() : request_.body.size();
}

std::string request_reader::take_body() {
  auto& body = chunked_ && !parser_->is_done() ? parser_->get().body() : request_.body;
  return std::exchange(body, {});
}

request_reader::step request_reader::read_body(std::string_view input, std::size_t& used) {
  used = 0;
  if (chunked_)
    return read_chunks(input, used);
  if (!streamed_ && request_.body.empty() && remaining_ > 0)
    request_.body.reserve(static_cast<std::size_t>(content_length_));
  used = static_cast<std::size_t>(std::min<std::uint64_t>(remaining_, input.size()));
  request_.body.append(input.substr(0, used));
  remaining_ -= used;
  return remaining_ == 0 ? step::done : step::more;
}

// A chunk's first line and the trailer must fit what the parser is given whole: so they are bounded, and whether they
// are too long does not depend on how the bytes came.
request_reader::step request_reader::read_chunks(std::string_view input, std::size_t& used) {
  parser_->eager(true);
  while (used < input.size() && !parser_->is_done()) {
    boost::system::error_code ec;
    auto rest = input.substr(used, limits_.header_bytes);
    auto taken = parser_->put(boost::asio::buffer(rest.data(), rest.size()), ec);
    used += taken;
    // Beast's own limit counts down; the body so far is compared here so that the limit may be set late.
    if (parser_->get().body().size() > body_limit_)
      return refuse_body();
    if (ec == bhttp::error::header_limit)
      return refuse(kinds::header_too_large, "The trailer is too long.");
    if (ec && ec != bhttp::error::need_more)
      return refuse(kinds::malformed_request, "The chunked body is malformed: " + ec.message() + ".");
    if (taken > 0)
      continue;
    if (rest.size() == limits_.header_bytes)
      return refuse(kinds::malformed_request, "A chunk's first line or the trailer is too long.");
    break;
  }
  if (parser_->is_done()) {
    request_.body = std::move(parser_->get().body());
    return step::done;
  }
  return step::more;
}

} // namespace kcx::http
