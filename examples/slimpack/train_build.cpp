#include "train_build.hpp"

#include <cstddef>
#include <cstdint>
#include <fstream>
#include <span>
#include <vector>

#include "slimpack/core/hash.hpp"
#include "slimpack/exec/settings.hpp"

namespace slimpack::command {

std::string build_text() {
  constexpr std::size_t words_at_a_time = std::size_t{1} << 16U;
  std::ifstream program("/proc/self/exe", std::ios::binary);
  if (!program) return "unknown";
  WordHash hash;
  while (program) {
    std::vector<std::uint64_t> words(words_at_a_time);
    program.read(reinterpret_cast<char*>(words.data()),
                 static_cast<std::streamsize>(words.size() * sizeof words.front()));
    hash.add(program.gcount());
    hash.add_all(std::span<const std::uint64_t>(words));
  }
  return concat("program ", detail::hash_digits(hash.value()));
}

}  // namespace slimpack::command
