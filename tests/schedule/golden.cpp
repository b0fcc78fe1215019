// Orders of small schedules, as text in tests/golden.

#include <catch2/catch.hpp>
#include <fstream>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "slimpack/schedule/scheduler.hpp"
#include "slimpack/slicing/group_cutter.hpp"
#include "tests/schedule/random_rows.hpp"

using namespace slimpack;

namespace {

std::string golden(const std::string& name) {
  std::ifstream file(SLIMPACK_SOURCE_DIR "/tests/golden/" + name + ".txt");
  REQUIRE(file);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

Packs packs_of(const std::vector<std::vector<Slice>>& all) {
  Packs packs;
  for (const auto& pack : all) {
    for (const Slice& slice : pack) packs.add(slice);
    packs.close();
  }
  return packs;
}

/// Each sample a pack.
Packs whole(const std::vector<Tokens>& lengths) {
  Packs packs;
  for (SampleId id = 0; id < lengths.size(); ++id) {
    packs.add({id, 0, lengths[id]});
    packs.close();
  }
  return packs;
}

/// A time model in which tokens cost a second each.
oracle::UnevenCost even_cost(std::size_t stages) {
  return {.speed = std::vector<double>(stages, 1.0), .sent = std::vector<double>(stages, 0.0)};
}

std::string orders(const std::vector<Tokens>& lengths, PackRows forward, PackRows backward,
                   std::size_t pipelines, std::size_t stages, const ScheduleOptions& options) {
  GroupPrices prices{Prices(even_cost(stages))};
  const std::vector<std::int32_t> layers(stages, 1);
  const Memory memory(oracle::UnevenMemory{.layers = layers}, layers, true);
  Scheduler scheduler(lengths, prices, memory);
  Schedule schedule;
  schedule.pipelines = pipelines;
  schedule.forward = std::move(forward);
  schedule.backward = std::move(backward);
  scheduler(schedule, options);
  REQUIRE(schedule.fits());
  return to_text(schedule);
}

/// Packs of one sample each, on three stages.
std::string orders_of_samples(std::size_t count, const ScheduleOptions& options) {
  const std::vector<Tokens> lengths(count, 8);
  return orders(lengths, in_rows(whole(lengths)), in_rows(whole(lengths)), 1, 3, options);
}

}  // namespace

TEST_CASE("GPipe runs all forward packs first") {
  CHECK(orders_of_samples(4, {.order = PassOrder::gpipe}) == golden("gpipe"));
}

TEST_CASE("packs of whole samples run in 1F1B order") {
  CHECK(orders_of_samples(4, {.order = PassOrder::packflow}) == golden("1f1b"));
}

TEST_CASE("eager stages are twice as far ahead of each other as in 1F1B") {
  CHECK(orders_of_samples(6, {.order = PassOrder::eager}) == golden("eager"));
}

TEST_CASE("units run in 1F1B order, one after another") {
  CHECK(orders_of_samples(6, {.unit_ends = {3, 6}}) == golden("units"));
}

namespace {

/// Two samples of three forward and two backward slices each, on two stages.
std::string orders_of_different_packs(PassOrder order) {
  const std::vector<Tokens> lengths{12, 12};
  const Packs forward =
      packs_of({{{0, 0, 4}}, {{0, 4, 8}}, {{0, 8, 12}}, {{1, 0, 4}}, {{1, 4, 8}}, {{1, 8, 12}}});
  const Packs backward = packs_of({{{0, 6, 12}}, {{0, 0, 6}}, {{1, 6, 12}}, {{1, 0, 6}}});
  return orders(lengths, in_rows(forward), in_rows(backward), 1, 2, {.order = order});
}

}  // namespace

TEST_CASE("PackFlow runs passes with different packs") {
  CHECK(orders_of_different_packs(PassOrder::packflow) == golden("packflow"));
}

TEST_CASE("the steady order has a longer warm-up in place of injected forward packs") {
  CHECK(orders_of_different_packs(PassOrder::steady) == golden("steady"));
}

TEST_CASE("backward packs with the boundaries of the forward packs run in reverse") {
  const std::vector<Tokens> lengths{12, 12};
  const Prices prices(even_cost(2));
  GroupCutter cutter(lengths);
  cutter.load({.first = 0, .merged = {}, .local = {{0, 1}}}, prices, prices);
  GroupPacks cut;
  cutter.cut({.packs = 6, .tile = 1, .backward = BackwardPacks::mirrored}, cut);
  REQUIRE(cut.forward.packs.size() == 6);
  for (std::size_t k = 0; k < 6; ++k) {
    const std::size_t mirrored = k < 3 ? 2 - k : 8 - k;
    REQUIRE(cut.forward.packs[k].size() == 1);
    REQUIRE(cut.backward.packs[mirrored].size() == 1);
    CHECK(cut.backward.packs[mirrored][0] == cut.forward.packs[k][0]);
  }
  CHECK(orders(lengths, cut.forward, cut.backward, 1, 2, {.order = PassOrder::packflow}) ==
        golden("mirrored"));
}

TEST_CASE("pipelines that share a pack run it in the same place") {
  const std::vector<Tokens> lengths{16, 8, 8};
  Ragged<std::uint32_t> members;
  members.add(0);
  members.add(1);
  members.close();
  members.add_row(1, 0);
  members.add_row(1, 1);
  const PackRows rows = in_rows(whole(lengths), members, 2);
  CHECK(orders(lengths, rows, rows, 2, 2, {.order = PassOrder::packflow}) == golden("shared"));
}
