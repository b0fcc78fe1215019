#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace campaign::files {

/// What is read from files that anybody may have written.
enum class Format { plan, profile, state, lengths, documents };

inline constexpr std::array<const char*, 5> format_names{"plan", "profile", "state", "lengths", "documents"};

/// @throws std::invalid_argument if there is no such format.
[[nodiscard]] Format format_named(std::string_view name);

/// Bytes that come before the text of a batch's lengths, in the format `documents`: how the batch is cut.
inline constexpr std::size_t cut_bytes = 8;

/// Reads bytes as a file of a format, and does with what was read what its users do.
/// @returns the message with which the bytes were refused, if they were.
/// @throws std::logic_error if a message is long or not printable, or something was accepted that its users can't take, or
/// that is another thing once it is written and read again.
[[nodiscard]] std::optional<std::string> examine(Format format, std::string_view bytes);

/// A saved state whose words are those of `bytes`, with the head and the checksum that they need, so that its values are looked at.
[[nodiscard]] std::string with_checksum(std::string_view bytes);

/// The price of a document in the streams whose states are read.
[[nodiscard]] double work_of(std::int64_t length);

}  // namespace campaign::files
