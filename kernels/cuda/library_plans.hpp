#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "slimpack/core/error.hpp"

// How plans of libraries, which take long to make and memory to keep, serve many sizes and stay bounded.
namespace slimpack::kernels::cuda {

/// The least size of a scale that is not below n: `least`, and from there `steps` equal steps from each power of
/// two to the next. So it is at most 1 + 1/steps times n, or `least`.
[[nodiscard]] constexpr std::int64_t rounded_up(std::int64_t n, std::int64_t least, std::int64_t steps) {
  if (n <= least) return least;
  const auto power = static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(n - 1)));
  const std::int64_t step = power < steps ? 1 : power / steps;
  return (n + step - 1) / step * step;
}

/// Values of the keys that were asked for last, and of no more than so many.
template <class Key, class Value>
class Recent {
 public:
  /// @throws InvalidInput if no value may be kept.
  explicit Recent(std::size_t most) : most_(most) {
    require(most > 0, "no value may be kept; expected at least one");
  }

  /// The value of a key, which stays where it is until the next call.
  /// @param make makes it if it is not kept; the value that was not asked for longest then makes place. If it
  /// throws, nothing has changed. O(log n) for a value that is kept, O(n) for another.
  template <class Make>
  [[nodiscard]] Value& get(const Key& key, Make&& make) {
    auto found = values_.find(key);
    if (found == values_.end()) {
      Value made = make();
      if (values_.size() >= most_) forget();
      found = values_.emplace(key, Used{std::move(made)}).first;
    }
    found->second.at = ++now_;
    return found->second.value;
  }

  /// Calls f(key, value) for all, in the keys' order.
  template <class F>
  void for_each(F&& f) {
    for (auto& [key, used] : values_) f(key, used.value);
  }

  [[nodiscard]] bool has(const Key& key) const { return values_.contains(key); }
  [[nodiscard]] std::size_t size() const { return values_.size(); }

 private:
  struct Used {
    Value value;
    std::uint64_t at = 0;
  };

  void forget() {
    auto oldest = values_.begin();
    for (auto v = values_.begin(); v != values_.end(); ++v) {
      if (v->second.at < oldest->second.at) oldest = v;
    }
    values_.erase(oldest);
  }

  std::size_t most_;
  std::uint64_t now_ = 0;
  std::map<Key, Used> values_;
};

/// What a library chose for the keys that were asked for last. Those that are asked for most are tried out, once.
template <class Key, class Choice>
class TriedChoices {
 public:
  static constexpr std::size_t hot = 8;  ///< times that a key was asked for, from which it is worth trying

  /// @param most choices that are kept
  explicit TriedChoices(std::size_t most) : recent_(most) {}

  /// The choice for a key, `make()` if none is kept. @param work that it is asked for, of any unit.
  template <class Make>
  [[nodiscard]] const Choice& get(const Key& key, double work, Make&& make) {
    Entry& entry = recent_.get(key, [&] { return Entry{make()}; });
    ++entry.uses;
    entry.work += work;
    return entry.choice;
  }

  /// Replaces the choices of hot keys that were not tried yet by `try_out(key, choice)`, those of the most work
  /// first. @param most of them in a call. @returns how many. O(n log n) and what trying takes.
  template <class TryOut>
  std::size_t try_hot(std::size_t most, TryOut&& try_out) {
    std::vector<std::pair<Key, Entry*>> keys;
    recent_.for_each([&](const Key& key, Entry& entry) {
      if (!entry.tried && entry.uses >= hot) keys.emplace_back(key, &entry);
    });
    std::stable_sort(keys.begin(), keys.end(),
                     [](const auto& a, const auto& b) { return a.second->work > b.second->work; });
    keys.resize(std::min(most, keys.size()));
    for (auto& [key, entry] : keys) {
      entry->tried = true;  // one that fails is not tried again
      entry->choice = try_out(key, entry->choice);
    }
    return keys.size();
  }

  [[nodiscard]] std::size_t size() const { return recent_.size(); }

 private:
  struct Entry {
    Choice choice;
    std::size_t uses = 0;
    double work = 0.0;
    bool tried = false;
  };

  Recent<Key, Entry> recent_;
};

}  // namespace slimpack::kernels::cuda
