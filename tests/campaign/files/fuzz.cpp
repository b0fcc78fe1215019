// The entry of libFuzzer. SLIMPACK_FUZZED is the name of a format.

#include <cstddef>
#include <cstdint>
#include <string>

#include "parsers.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace campaign::files;
  static const Format format = format_named(SLIMPACK_FUZZED);
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  static_cast<void>(examine(format, bytes));
  // A changed byte breaks the checksum, and then nothing else would be read.
  if (format == Format::state) static_cast<void>(examine(format, with_checksum(bytes)));
  return 0;
}
