#include "actors/runner/protocol.hpp"

#include "actors/runner/protocol_json.hpp"

#include <utility>

namespace kcx {

namespace {

using nlohmann::json;

template <class Message>
expected<std::string> encode_frame(const Message& message) {
  // System texts and paths may hold any byte; JSON may not.
  auto text = protocol::to_json(message).dump(-1, ' ', false, json::error_handler_t::replace);
  if (text.size() > max_frame_bytes)
    return error{ec::invalid_input,
                 "command and environment of the job take " + std::to_string(text.size()) + " bytes; at most " +
                   std::to_string(max_frame_bytes) + " can be handed to a runner",
                 {}};
  const auto size = static_cast<std::uint32_t>(text.size());
  std::string frame;
  frame.reserve(text.size() + 4);
  for (int shift = 24; shift >= 0; shift -= 8)
    frame += static_cast<char>((size >> shift) & 0xffU);
  return frame += text;
}

template <class Decode>
auto decode_with(std::string_view text, Decode decode) -> expected<decltype(decode(json{}))> {
  try {
    return decode(json::parse(text));
  } catch (const std::exception& problem) {
    return error{ec::invalid_input, std::string{"malformed message between node and runner: "} + problem.what(), {}};
  }
}

} // namespace

expected<std::string> encode(const runner_command& command) {
  return encode_frame(command);
}

expected<std::string> encode(const runner_event& event) {
  return encode_frame(event);
}

expected<runner_command> decode_command(std::string_view text) {
  return decode_with(text, protocol::command_from);
}

expected<runner_event> decode_event(std::string_view text) {
  return decode_with(text, protocol::event_from);
}

} // namespace kcx
