#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "slimpack/core/error.hpp"
#include "slimpack/core/json_place.hpp"
#include "slimpack/plan/plan.hpp"

// The packs of a plan file.
namespace slimpack::detail {

template <class T>
std::vector<T> read_integers(const JsonPlace& place, std::int64_t least) {
  std::vector<T> list;
  list.reserve(place.size());
  place.for_each([&](const JsonPlace& entry) { list.push_back(entry.integer<T>(least)); });
  return list;
}

/// As one more row.
template <class T>
void read_integers(const JsonPlace& place, std::int64_t least, Ragged<T>& rows) {
  place.for_each([&](const JsonPlace& entry) { rows.add(entry.integer<T>(least)); });
  rows.close();
}

inline std::vector<double> read_numbers(const JsonPlace& place) {
  std::vector<double> list;
  list.reserve(place.size());
  place.for_each([&](const JsonPlace& entry) { list.push_back(entry.number()); });
  return list;
}

/// As one more row.
inline void read_numbers(const JsonPlace& place, Ragged<double>& rows) {
  place.for_each([&](const JsonPlace& entry) { rows.add(entry.number()); });
  rows.close();
}

inline Sharding read_sharding(const JsonPlace& pack, std::int32_t version) {
  if (!pack.has("sharding")) return Sharding::none;
  const JsonPlace place = pack["sharding"];
  const std::string_view text = place.text();
  for (const Sharding kind : {Sharding::per_sequence, Sharding::per_document, Sharding::mixed}) {
    if (text == sharding_name(kind)) return kind;
  }
  if (version > 1 && text == sharding_name(Sharding::by_position)) return Sharding::by_position;
  place.fail(
      concat("is ", place.brief(), "; expected \"per_sequence\", \"per_document\", \"mixed\", ",
             version > 1 ? "\"by_position\" or null" : "or null (version 2 also has \"by_position\")"));
}

/// Packs of one pass that are sharded by position are so in chunks of one size.
inline void read_block(const JsonPlace& pack, PassPlan& out) {
  if (!pack.has("block")) return;
  const JsonPlace place = pack["block"];
  const auto block = place.integer<Tokens>(1);
  if (out.sharding.back() != Sharding::by_position) return;
  if (out.block != 0 && out.block != block) {
    place.fail(concat("is ", place.brief(), "; expected ", out.block, ", as in the packs before it"));
  }
  out.block = block;
}

inline KeyExchange read_exchange(const JsonPlace& pack) {
  if (!pack.has("exchange")) return KeyExchange::none;
  const JsonPlace place = pack["exchange"];
  const std::string_view text = place.text();
  for (const KeyExchange exchange :
       {KeyExchange::ring, KeyExchange::all_to_all, KeyExchange::all_gather, KeyExchange::queries}) {
    if (text == exchange_name(exchange)) return exchange;
  }
  place.fail(concat("is ", place.brief(),
                    "; expected \"ring\", \"all_to_all\", \"all_gather\", \"queries\" or null"));
}

/// A number stands for all neighbouring stages.
inline void read_transfers(const JsonPlace& place, std::size_t stages, std::int32_t version, PassPlan& out) {
  if (version == 1 || !place.is_array()) {
    out.transfer_seconds.add_row(stages > 0 ? stages - 1 : 0, place.number());
    return;
  }
  read_numbers(place, out.transfer_seconds);
}

inline Slice read_slice(const JsonPlace& place) {
  if (place.size() != 3) place.fail(concat("has ", place.size(), " entries; expected sample, begin and end"));
  Slice slice;
  place.for_each([&](const JsonPlace& entry) {
    switch (entry.index()) {
      case 0:
        slice.sample = entry.integer<SampleId>(0);
        break;
      case 1:
        slice.begin = entry.integer<Tokens>(0);
        break;
      default:
        slice.end = entry.integer<Tokens>(0);
    }
  });
  return slice;
}

/// What backward packs alone have. A planner that recomputes nothing may leave that list out.
inline void read_backward_fields(const JsonPlace& place, std::size_t stages, PassPlan& out) {
  if (place.has("recompute_layers")) {
    read_integers(place["recompute_layers"], 0, out.recompute_layers);
  } else {
    out.recompute_layers.add_row(stages);
  }
  if (place.has("offload_layers")) {
    read_integers(place["offload_layers"], 0, out.offload_layers);
  } else {
    out.offload_layers.close();
  }
  if (place.has("weight_seconds")) {
    read_numbers(place["weight_seconds"], out.weight_seconds);
  } else {
    out.weight_seconds.close();
  }
}

/// Packs stand in the order of their ids.
inline void read_pack(const JsonPlace& place, bool backward, std::int32_t version, PassPlan& out) {
  const JsonPlace id = place["id"], slices = place["slices"], flops = place["flops"],
                  seconds = place["seconds"];
  if (id.integer<PackId>(0) != place.index())
    id.fail(concat("is ", id.brief(), "; expected ", place.index(), ", the pack's place"));
  read_integers(place["pipelines"], 0, out.pipelines);
  slices.for_each([&](const JsonPlace& slice) { out.packs.add(read_slice(slice)); });
  out.packs.close();
  out.flops.push_back({flops["linear"].number(), flops["attention"].number()});
  read_numbers(seconds, out.seconds);
  const std::size_t stages = std::as_const(out.seconds)[place.index()].size();
  read_transfers(place["transfer_seconds"], stages, version, out);
  out.sharding.push_back(read_sharding(place, version));
  read_block(place, out);
  out.exchange.push_back(read_exchange(place));
  if (place.has("per_document_slices")) {
    read_integers(place["per_document_slices"], 0, out.per_document);
  } else {
    out.per_document.close();
  }
  if (backward) return read_backward_fields(place, stages, out);
  for (const char* field : {"recompute_layers", "offload_layers", "weight_seconds"}) {
    if (place.has(field)) place[field].fail("is there; expected it in backward packs only");
  }
}

/// Makes room for all packs at once, for lists that grow hold their entries up to three times. What is wrong is left to
/// `read_pack`.
inline void reserve_packs(const JsonPlace& place, PassPlan& out) {
  std::size_t packs = 0, slices = 0, pipelines = 0, seconds = 0, transfers = 0, recomputed = 0, weights = 0;
  place.for_each([&](const JsonPlace& pack) {
    if (!pack.has("seconds")) return;
    const auto entries = [&](const char* key) {
      return pack.has(key) && pack[key].is_array() ? pack[key].size() : 0;
    };
    ++packs;
    slices += entries("slices");
    pipelines += entries("pipelines");
    seconds += entries("seconds");
    transfers += entries("transfer_seconds");
    recomputed += entries("recompute_layers");
    weights += entries("weight_seconds");
  });
  out.packs.reserve(packs, slices);
  out.pipelines.reserve(packs, pipelines);
  out.flops.reserve(packs);
  out.seconds.reserve(packs, seconds);
  out.transfer_seconds.reserve(packs, std::max(transfers, seconds));
  out.sharding.reserve(packs);
  out.recompute_layers.reserve(packs, recomputed);
  out.weight_seconds.reserve(packs, weights);
}

/// Lists that no pack has anything in are left empty.
inline void read_packs(const JsonPlace& place, bool backward, std::int32_t version, PassPlan& out) {
  reserve_packs(place, out);
  place.for_each([&](const JsonPlace& pack) { read_pack(pack, backward, version, out); });
  const auto said = [](KeyExchange exchange) { return exchange != KeyExchange::none; };
  if (std::none_of(out.exchange.begin(), out.exchange.end(), said)) out.exchange.clear();
  if (out.per_document.values().empty()) out.per_document = {};
  if (out.offload_layers.values().empty()) out.offload_layers = {};
  if (out.weight_seconds.values().empty()) out.weight_seconds = {};
}

/// Files of version 1 could not say `by_position`: there, packs of several pipelines say `per_document`, and mean it.
inline void correct_merged_sharding(PassPlan& pass) {
  for (std::size_t k = 0; k < pass.packs.size(); ++k) {
    if (pass.pipelines[k].size() > 1 && pass.sharding[k] == Sharding::per_document)
      pass.sharding[k] = Sharding::by_position;
  }
}

}  // namespace slimpack::detail
