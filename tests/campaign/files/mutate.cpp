#include "mutate.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <vector>

#include "slimpack/core/error.hpp"
#include "slimpack/plan/not_checked.hpp"

namespace campaign::files {

using nlohmann::json;
using slimpack::concat;

namespace {

/// What breaks parsers: ends of ranges, other types, what is no text.
std::string strange_text(Draw& draw) {
  using namespace std::string_literals;
  return draw.one_of({"0"s,
                      "-1"s,
                      "1e308"s,
                      "1e400"s,
                      "-0.0"s,
                      "5e-324"s,
                      "2147483648"s,
                      "4294967295"s,
                      "9223372036854775807"s,
                      "18446744073709551615"s,
                      "99999999999999999999"s,
                      "1.5"s,
                      "null"s,
                      "true"s,
                      "[]"s,
                      "{}"s,
                      "[[]]"s,
                      "\""s,
                      "\\"s,
                      "\"\\u0000\""s,
                      "\n"s,
                      " "s,
                      "\0"s,
                      "\xff"s,
                      "\xef\xbb\xbf"s,
                      "\x1b[2J"s,
                      ","s,
                      ":"s,
                      "[[[[[[[["s,
                      "128K"s});
}

/// @pre bytes is not empty.
std::string with_changed_bytes(std::string bytes, Draw& draw) {
  const std::size_t at = draw.whole<std::size_t>(0, bytes.size() - 1);
  const std::size_t size = std::min(draw.log_whole<std::size_t>(1, 100), bytes.size() - at);
  switch (draw.whole(0, 6)) {
    case 0:
      bytes[at] = static_cast<char>(bytes[at] ^ (1 << draw.whole(0, 7)));
      break;
    case 1:
      bytes[at] = static_cast<char>(draw.whole(0, 255));
      break;
    case 2:
      bytes.erase(at, size);
      break;
    case 3:
      bytes.insert(at, bytes.substr(at, size));
      break;
    case 4:
      bytes.resize(at);
      break;
    case 5:
      bytes.insert(at, strange_text(draw));
      break;
    default:
      bytes.replace(at, size, strange_text(draw));
  }
  return bytes;
}

/// A value of a document and the name of its field: the path without places in lists.
struct Place {
  json::json_pointer pointer;
  std::string field;
};

void add_places(const json& value, const Place& place, std::vector<Place>& all) {
  all.push_back(place);
  if (value.is_array()) {
    for (std::size_t i = 0; i < value.size(); ++i)
      add_places(value[i], {place.pointer / i, place.field}, all);
  }
  if (!value.is_object()) return;
  for (const auto& [key, member] : value.items()) {
    const std::string field = place.field.empty() ? key : place.field + "." + key;
    add_places(member, {place.pointer / key, place.field == "device" ? "device" : field}, all);
  }
}

json strange_value(Draw& draw) {
  const json value = json::parse(strange_text(draw), nullptr, false);
  return value.is_discarded() ? json(std::string(draw.log_whole<std::size_t>(1, 300), 'x') + "\n\x01")
                              : value;
}

/// Another number of the same kind, by at least a hundredth.
json other_number(const json& number, Draw& draw) {
  if (number.is_number_float()) {
    const double value = number.get<double>();
    return draw.chance(0.5) ? value * draw.log_real(1.01, 100.0) + 0.01 : value / draw.log_real(1.02, 100.0);
  }
  const auto value = number.get<std::uint64_t>();
  if (value > 0 && draw.chance(0.5)) return draw.whole<std::uint64_t>(0, value - 1 - value / 100);
  return value + (1 + value / 100) * draw.log_whole<std::uint64_t>(1, 1000);
}

bool listed(const std::string& field) {
  return std::any_of(slimpack::not_checked.begin(), slimpack::not_checked.end(),
                     [&](const slimpack::NotChecked& one) { return field == one.field; });
}

/// Changes values, all of which have a place.
Mutated with_changed_values(Format format, const std::string& original, Draw& draw) {
  json file = json::parse(original);
  std::vector<Place> places;
  add_places(file, {json::json_pointer(), ""}, places);
  Mutated result;
  const bool numbers = draw.chance(0.5);
  for (int changes = numbers ? 1 : draw.log_whole(1, 3); changes > 0;) {
    const Place& place = places[draw.whole<std::size_t>(0, places.size() - 1)];
    if (!file.contains(place.pointer)) continue;  // an earlier change has removed it
    json& value = file[place.pointer];
    if (numbers && !value.is_number()) continue;
    const json before = value;
    if (numbers) {
      value = other_number(value, draw);
      result.must_be_refused = format == Format::plan && !listed(place.field) && value != before;
    } else if (value.is_array() && !value.empty() && draw.chance(0.5)) {
      draw.chance(0.5) ? value.erase(0) : value.push_back(value.back());
    } else if (value.is_object() && !value.empty() && draw.chance(0.5)) {
      value.erase(value.begin());
    } else {
      value = strange_value(draw);
    }
    const auto brief = [](const json& all) { return all.dump(-1, ' ', true).substr(0, 60); };
    result.change += concat(place.pointer.to_string(), ": ", brief(before), " to ", brief(value), "; ");
    --changes;
  }
  result.bytes = file.dump();
  return result;
}

Mutated with_changed_words(std::string bytes, Draw& draw) {
  Mutated result;
  for (int changes = draw.log_whole(1, 4); changes > 0; --changes) {
    const std::size_t word = draw.whole<std::size_t>(0, bytes.size() / 8 - 1);
    const std::uint64_t value = draw.one_of<std::uint64_t>(
        {0, 1, 2, draw.bits(), draw.bits() >> 40, ~std::uint64_t{0}, std::uint64_t{1} << 63,
         0x7ff0000000000000, draw.log_whole<std::uint64_t>(1, 100000)});
    for (std::size_t b = 0; b < 8; ++b) bytes[8 * word + b] = static_cast<char>(value >> (8 * b) & 0xff);
    result.change += concat("word ", word, " is ", value, "; ");
  }
  result.bytes = with_checksum(bytes);
  return result;
}

}  // namespace

Mutated mutated(Format format, const std::string& original, Draw& draw) {
  const bool values = draw.chance(0.6);
  if (values && (format == Format::plan || format == Format::profile))
    return with_changed_values(format, original, draw);
  if (values && format == Format::state) return with_changed_words(original, draw);
  Mutated result{.bytes = original, .change = "bytes"};
  for (int changes = draw.log_whole(1, 4); changes > 0 && !result.bytes.empty(); --changes)
    result.bytes = with_changed_bytes(std::move(result.bytes), draw);
  result.must_be_refused = format == Format::state && result.bytes != original;
  return result;
}

}  // namespace campaign::files
