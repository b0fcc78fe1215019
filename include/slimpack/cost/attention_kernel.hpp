#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "slimpack/core/error.hpp"
#include "slimpack/core/packs.hpp"
#include "slimpack/core/visible.hpp"
#include "slimpack/cost/flops.hpp"
#include "slimpack/cost/profile.hpp"
#include "slimpack/sharding/attention_model.hpp"

namespace slimpack {

/// Rates that an attention kernel achieves, by shape (WLB-LLM, section 5.3 and Figure 10): between the lengths
/// of the table it interpolates linearly in both directions, beyond them the nearest rate holds.
struct AttentionRates {
  Tokens tile = 128;                  ///< rows of queries and of keys that a thread block computes at a time
  std::vector<Tokens> query_lengths;  ///< ascending; looked up after padding to tiles
  std::vector<Tokens> key_lengths;    ///< ascending; looked up after padding to tiles
  std::vector<double> flops_per_second;  ///< [query_lengths][key_lengths], of padded FLOPs

  friend bool operator==(const AttentionRates&, const AttentionRates&) = default;
};

/// The rates of a kernel in both passes, and where they come from.
struct AttentionTable {
  AttentionRates forward, backward;
  double launch_seconds = 0.0;  ///< of each pass
  std::string source;           ///< what was measured, or that it is an assumption

  friend bool operator==(const AttentionTable&, const AttentionTable&) = default;
};

/// @throws InvalidInput naming the first value that no kernel can have. O(table).
inline void validate(const AttentionRates& rates) {
  require(rates.tile > 0, "attention rates: tile is ", rates.tile, "; expected a positive number of rows");
  const auto check_lengths = [](const char* name, std::span<const Tokens> lengths) {
    require(!lengths.empty(), "attention rates: ", name, " is empty; expected at least one length");
    for (std::size_t i = 0; i < lengths.size(); ++i) {
      const Tokens least = i == 0 ? 1 : lengths[i - 1] + 1;
      require(lengths[i] >= least, "attention rates: ", name, "[", i, "] is ", lengths[i],
              "; expected ascending lengths, here at least ", least);
    }
  };
  check_lengths("query_lengths", rates.query_lengths);
  check_lengths("key_lengths", rates.key_lengths);
  const std::size_t cells = rates.query_lengths.size() * rates.key_lengths.size();
  require(rates.flops_per_second.size() == cells, "attention rates: flops_per_second has ",
          rates.flops_per_second.size(), " entries; expected ", cells,
          ", one for each pair of a query and a key length");
  for (std::size_t i = 0; i < cells; ++i) {
    const double rate = rates.flops_per_second[i];
    require(rate > 0.0 && rate < 1e30, "attention rates: flops_per_second[", i, "] is ", rate,
            "; expected a positive number");
  }
}

namespace detail {

/// @param rows tiles of queries. @param before tiles of keys before the queries. @param all tiles of keys up to the last query.
[[nodiscard]] constexpr double twice_padded_pairs(Tokens rows, Tokens before, Tokens all, Tokens tile) {
  const double full = static_cast<double>(rows - 1) * static_cast<double>(2 * before + rows);  // twice
  const auto side = static_cast<double>(tile);
  return (full + 2.0 * static_cast<double>(all)) * side * side;
}

}  // namespace detail

/// Twice the number of (query, key) pairs that a kernel computes for queries `[begin, end)` and keys
/// `[0, end)` in tiles of `tile` by `tile`, causal: a tile of queries passes over the tiles of keys up to its
/// last query, the last tile of each being full (WLB-LLM, section 5.2: shorter ones are padded). O(1).
/// @pre 0 <= begin < end, tile > 0.
[[nodiscard]] constexpr double twice_padded_pairs(Tokens begin, Tokens end, Tokens tile) {
  const Tokens rows = (end - begin + tile - 1) / tile, before = (begin + tile - 1) / tile;
  return detail::twice_padded_pairs(rows, before, (end + tile - 1) / tile, tile);
}

namespace detail {

/// Place of a length in an ascending list: `share` of the way from entry `low` to entry `high`.
struct TablePlace {
  std::size_t low = 0, high = 0;
  double share = 0.0;
};

[[nodiscard]] inline TablePlace table_place(std::span<const Tokens> lengths, Tokens length) {
  const auto above = std::upper_bound(lengths.begin(), lengths.end(), length);
  const auto high = static_cast<std::size_t>(above - lengths.begin());
  if (high == 0) return {};
  if (high == lengths.size()) return {high - 1, high - 1, 0.0};
  const Tokens from = lengths[high - 1], to = lengths[high];
  return {high - 1, high, static_cast<double>(length - from) / static_cast<double>(to - from)};
}

/// The rate at a place of the table.
[[nodiscard]] inline double rate_at(const AttentionRates& rates, const TablePlace& q, const TablePlace& k) {
  const std::size_t width = rates.key_lengths.size();
  const auto row = [&](std::size_t i) {
    const double* const cells = rates.flops_per_second.data() + i * width;
    return cells[k.low] + k.share * (cells[k.high] - cells[k.low]);
  };
  const double low = row(q.low);
  return q.high == q.low ? low : low + q.share * (row(q.high) - low);
}

/// `table_place` by number of tiles. The places are tabulated unless the table would be large.
class TilePlaces {
 public:
  TilePlaces(std::span<const Tokens> lengths, Tokens tile) : lengths_(lengths), tile_(tile) {
    const Tokens last = (lengths.back() + tile - 1) / tile;
    for (Tokens t = 0; t <= last && last <= most_tiles; ++t)
      places_.push_back(table_place(lengths, t * tile));
  }

  /// O(1), or O(log of the lengths) where there are too many tiles.
  [[nodiscard]] TablePlace operator()(Tokens tiles) const {
    if (places_.empty()) return table_place(lengths_, tiles * tile_);
    return places_[std::min(static_cast<std::size_t>(tiles), places_.size() - 1)];
  }

 private:
  static constexpr Tokens most_tiles = 4096;

  std::span<const Tokens> lengths_;
  Tokens tile_;
  std::vector<TablePlace> places_;
};

/// Rates that a kernel achieves, in padded FLOPs per second. The rates have to outlive this.
class RateLookup {
 public:
  explicit RateLookup(const AttentionRates& rates)
      : rates_(rates), queries_(rates.query_lengths, rates.tile), keys_(rates.key_lengths, rates.tile) {}

  /// @param queries, keys numbers of tiles.
  [[nodiscard]] double operator()(Tokens queries, Tokens keys) const {
    return rate_at(rates_, queries_(queries), keys_(keys));
  }

 private:
  const AttentionRates& rates_;
  TilePlaces queries_, keys_;
};

}  // namespace detail

/// Rates from measured times. @param seconds [query_lengths][key_lengths], of one chunk of that many queries
/// at the end of that many keys, without the launch; ignored where there are more queries than keys, which no
/// chunk has: there the rate of the nearest measured key length stands.
/// @param flops_per_twice_pair FLOPs of the measured kernel per unit of `twice_causal_pairs`, with all heads.
/// @throws InvalidInput if a time is missing or not positive, or no key length is as long as some query length.
[[nodiscard]] inline AttentionRates rates_from_seconds(std::vector<Tokens> query_lengths,
                                                       std::vector<Tokens> key_lengths,
                                                       std::span<const double> seconds,
                                                       double flops_per_twice_pair, Tokens tile = 128) {
  AttentionRates rates{tile, std::move(query_lengths), std::move(key_lengths), {}};
  const std::size_t width = rates.key_lengths.size();
  require(seconds.size() == rates.query_lengths.size() * width, "attention rates: there are ", seconds.size(),
          " times; expected ", rates.query_lengths.size() * width,
          ", one for each pair of a query and a key length");
  rates.flops_per_second.assign(seconds.size(), 1.0);
  validate(rates);
  require(flops_per_twice_pair > 0.0 && flops_per_twice_pair < 1e30,
          "attention rates: flops_per_twice_pair is ", flops_per_twice_pair, "; expected a positive number");
  for (std::size_t i = 0; i < rates.query_lengths.size(); ++i) {
    const Tokens queries = rates.query_lengths[i];
    const auto first = std::lower_bound(rates.key_lengths.begin(), rates.key_lengths.end(), queries);
    require(first != rates.key_lengths.end(), "attention rates: no key length is as long as query_lengths[",
            i, "] = ", queries, "; expected at least one");
    const auto possible = static_cast<std::size_t>(first - rates.key_lengths.begin());
    for (std::size_t k = possible; k < width; ++k) {
      const double time = seconds[i * width + k];
      require(time > 0.0 && time < 1e30, "attention rates: ", queries, " queries and ", rates.key_lengths[k],
              " keys take ", time, " seconds; expected a positive number");
      const Tokens keys = rates.key_lengths[k];
      rates.flops_per_second[i * width + k] =
          flops_per_twice_pair * twice_padded_pairs(keys - queries, keys, tile) / time;
    }
    for (std::size_t k = 0; k < possible; ++k) {
      rates.flops_per_second[i * width + k] = rates.flops_per_second[i * width + possible];
    }
  }
  return rates;
}

/// Latency of a variable-length attention kernel (WLB-LLM, section 5.3): FLOPs of the padded tiles over the
/// rate achieved for the chunk's shape. Not modelled: how tiles fill the last wave of a device's
/// multiprocessors. A BoundedAttentionModel. A value: copies share the table.
class AttentionKernel {
 public:
  /// @param tp tensor-parallel ranks that share the heads. @throws InvalidInput if the model, a table or `tp`
  /// is impossible.
  AttentionKernel(AttentionTable table, const Transformer& model, std::int32_t tp = 1)
      : known_((validate(table.forward), validate(table.backward),
                std::make_shared<const Known>(std::move(table)))) {
    validate(model);
    require(tp > 0 && model.heads % tp == 0, "tp is ", tp, "; expected a divisor of the ", model.heads,
            " heads of model '", visible(model.name), "'");
    const double launch = this->table().launch_seconds;
    require(launch >= 0.0 && launch < 1e30, "attention table: launch_seconds is ", launch,
            "; expected zero or a positive number");
    flops_forward_ = attention_flops_per_twice_pair(model) / tp;
    flops_backward_ = backward_attention_ratio * flops_forward_;
  }

  [[nodiscard]] const AttentionTable& table() const { return known_->table; }

  /// Seconds of a chunk in one pass. O(1), or O(log of the table) if that is large.
  [[nodiscard]] double chunk_seconds(Tokens begin, Tokens end, Pass pass) const {
    const bool forward = pass == Pass::forward;
    const AttentionRates& rates = forward ? known_->table.forward : known_->table.backward;
    const Tokens tile = rates.tile, rows = (end - begin + tile - 1) / tile;
    const Tokens before = (begin + tile - 1) / tile, all = (end + tile - 1) / tile;
    const double rate = (forward ? known_->forward : known_->backward)(rows, all);
    return (forward ? flops_forward_ : flops_backward_) *
           detail::twice_padded_pairs(rows, before, all, tile) / rate;
  }
  [[nodiscard]] AttentionSeconds chunk_seconds(Tokens begin, Tokens end) const {
    return {chunk_seconds(begin, end, Pass::forward), chunk_seconds(begin, end, Pass::backward)};
  }

  [[nodiscard]] AttentionSeconds launch_seconds() const {
    return {table().launch_seconds, table().launch_seconds};
  }

  /// Seconds per unit of `twice_causal_pairs` at the table's best rate: no chunk takes less. O(table).
  [[nodiscard]] AttentionSeconds least_seconds_per_twice_pair() const {
    const auto of = [](const AttentionRates& rates, double flops) {
      return flops / *std::max_element(rates.flops_per_second.begin(), rates.flops_per_second.end());
    };
    return {of(table().forward, flops_forward_), of(table().backward, flops_backward_)};
  }

 private:
  struct Known {
    explicit Known(AttentionTable t)
        : table(std::move(t)), forward(table.forward), backward(table.backward) {}
    Known(const Known&) = delete;
    Known& operator=(const Known&) = delete;

    AttentionTable table;
    detail::RateLookup forward, backward;
  };

  std::shared_ptr<const Known> known_;
  double flops_forward_ = 0.0, flops_backward_ = 0.0;  // per unit of twice_causal_pairs
};

/// Attention as a measured profile prices it (`cost/profile.hpp`): no tiles, a price for each chunk, for its
/// keys and for its pairs. A BoundedAttentionModel; meant for machines whose kernel has no wide tiles.
class ProfiledAttention {
 public:
  explicit ProfiledAttention(const Profile& profile)
      : forward_(profile.forward.layer), backward_(profile.backward.layer) {
    validate(profile);
  }

  [[nodiscard]] AttentionSeconds chunk_seconds(Tokens begin, Tokens end) const {
    const auto of = [&](const PackRates& r) {
      return r.per_slice + r.per_key * static_cast<double>(end) +
             r.per_twice_pair * twice_causal_pairs(begin, end);
    };
    return {of(forward_), of(backward_)};
  }
  [[nodiscard]] AttentionSeconds launch_seconds() const { return {}; }  // `per_pack` is of the whole layer
  [[nodiscard]] AttentionSeconds least_seconds_per_twice_pair() const {
    return {forward_.per_twice_pair, backward_.per_twice_pair};
  }

 private:
  PackRates forward_, backward_;
};

}  // namespace slimpack
