#include "actors/cli/pipeline/source_file.hpp"

#include "actors/cli/pipeline/yaml.hpp"

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <set>
#include <system_error>
#include <tuple>
#include <utility>

namespace kcx::cli {

namespace {

error unreadable(std::string message) {
  return {ec::invalid_input, std::move(message), {}};
}

expected<std::string> read_text(const std::string& file, std::istream& standard_input) {
  if (file == "-")
    return std::string{std::istreambuf_iterator<char>{standard_input}, {}};
  errno = 0;
  std::ifstream in{file};
  if (!in || in.peek() == std::ifstream::traits_type::eof()) {
    const auto number = errno;
    auto cause = number == 0 ? std::string{"the file is empty"} : std::generic_category().message(number);
    return unreadable("cannot read the job file " + file + ": " + cause +
                      (number == ENOENT ? "; a command would stand after \"--\"" : ""));
  }
  return std::string{std::istreambuf_iterator<char>{in}, {}};
}

bool is_json(const std::string& file, const std::string& text) {
  const auto ending = std::filesystem::path{file}.extension();
  if (ending == ".json")
    return true;
  if (ending == ".yaml" || ending == ".yml")
    return false;
  const auto first = text.find_first_not_of(" \t\r\n");
  return first != std::string::npos && (text[first] == '{' || text[first] == '[');
}

/// Watches a JSON parser for keys an object has twice: the library would keep one of them without a word.
class key_watch {
public:
  bool operator()(int, source_value::parse_event_t event, source_value& value) {
    using kind = source_value::parse_event_t;
    if (event == kind::object_start)
      keys_.emplace_back();
    else if (event == kind::object_end)
      keys_.pop_back();
    else if (event == kind::key && !keys_.back().insert(value.get<std::string>()).second && !twice_)
      twice_ = value.get<std::string>();
    return true;
  }
  [[nodiscard]] const std::optional<std::string>& twice() const noexcept { return twice_; }

private:
  std::vector<std::set<std::string>> keys_;
  std::optional<std::string> twice_;
};

expected<source_value> read_json(const std::string& name, const std::string& text) {
  try {
    key_watch watch;
    auto value = source_value::parse(text, std::ref(watch));
    if (watch.twice())
      return unreadable(name + ": an object has the key \"" + *watch.twice() + "\" twice");
    return value;
  } catch (const source_value::parse_error& failure) {
    // Its text begins with the library's own code in brackets.
    std::string_view cause = failure.what();
    cause.remove_prefix(std::min(cause.size(), cause.find("] ") + 2));
    return unreadable(name + " is no JSON: " + std::string{cause});
  }
}

bool is_utf8(std::string_view text) {
  try {
    std::ignore = source_value(text).dump();
    return true;
  } catch (const source_value::type_error&) {
    return false;
  }
}

/// The first line that is no UTF-8.
std::optional<std::size_t> line_without_text(std::string_view text) {
  for (std::size_t number = 1; !text.empty(); ++number) {
    const auto line = text.substr(0, text.find('\n'));
    if (!is_utf8(line))
      return number;
    text.remove_prefix(std::min(line.size() + 1, text.size()));
  }
  return std::nullopt;
}

constexpr std::size_t most_told = 50;

} // namespace

std::string pointer_to(std::string_view parent, std::string_view key) {
  std::string pointer{parent};
  pointer += '/';
  for (const char c : key)
    if (c == '~')
      pointer += "~0";
    else if (c == '/')
      pointer += "~1";
    else
      pointer += c;
  return pointer;
}

std::string pointer_to(std::string_view parent, std::size_t index) {
  return std::string{parent} + '/' + std::to_string(index);
}

expected<source_file> source_file::read(const std::string& file, std::istream& standard_input) {
  auto text = read_text(file, standard_input);
  if (!text)
    return std::move(text).error();
  return parse(file == "-" ? "standard input" : file, *std::move(text));
}

expected<source_file> source_file::parse(const std::string& file, std::string text) {
  source_file made{file, std::move(text)};
  if (is_json(file, made.text_)) {
    auto value = read_json(file, made.text_);
    if (!value)
      return std::move(value).error();
    made.value_ = *std::move(value);
    return made;
  }
  if (const auto line = line_without_text(made.text_))
    return unreadable(file + ':' + std::to_string(*line) + ": this line holds bytes that are no UTF-8 text");
  auto document = read_yaml(made.text_);
  if (!document)
    return unreadable(file + ": " + document.error().message);
  made.value_ = std::move(document->value);
  made.lines_ = std::move(document->lines);
  return made;
}

bool source_file::has(std::string_view pointer) const {
  try {
    return value_.contains(source_value::json_pointer(std::string{pointer}));
  } catch (const source_value::exception&) {
    return false; // no pointer at all
  }
}

std::string source_file::place(std::string_view pointer) const {
  // JSON is YAML too, and only this reader tells lines; where it cannot, the pointer must do.
  if (lines_.empty())
    if (auto document = read_yaml(text_))
      lines_ = std::move(document->lines);
  auto nearest = pointer;
  auto found = lines_.find(nearest);
  while (found == lines_.end() && !nearest.empty()) {
    nearest = nearest.substr(0, nearest.rfind('/'));
    found = lines_.find(nearest);
  }
  auto text = name_ + ':';
  if (found != lines_.end())
    text += std::to_string(found->second) + ':';
  return text + ' ' + (pointer.empty() ? "(the whole document)" : std::string{pointer});
}

void complaints::add(std::string pointer, std::string detail) {
  ++count_;
  const auto same = [&](const field_error& each) { return each.pointer == pointer && each.detail == detail; };
  if (list_.size() < most_told && std::none_of(list_.begin(), list_.end(), same))
    list_.push_back({std::move(pointer), std::move(detail)});
}

bool complaints::about(std::string_view pointer) const noexcept {
  return std::any_of(list_.begin(), list_.end(), [&](const field_error& each) { return each.pointer == pointer; });
}

error complaints::as_error(const source_file& file) const {
  error all{ec::invalid_input, file.name() + " cannot be used:", {}};
  for (const auto& each : list_)
    all.fields.push_back({file.place(each.pointer), each.detail});
  return all;
}

} // namespace kcx::cli
