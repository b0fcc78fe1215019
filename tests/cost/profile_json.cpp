#ifdef SLIMPACK_TEST_JSON
#include "slimpack/cost/profile_json.hpp"

#include <catch2/catch.hpp>
#include <string>

#include "slimpack/model/attention_choice.hpp"
#include "tests/cost/random_profile.hpp"

using namespace slimpack;
using slimpack::testing::gpu_machine, slimpack::testing::machine;

namespace {

/// The profile's text with one piece of it replaced.
std::string changed(const std::string& from, const std::string& to) {
  std::string text = to_json(machine(3, true));
  const std::size_t at = text.find(from);
  INFO(text);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

}  // namespace

TEST_CASE("profiles are read back as they were written") {
  for (unsigned seed = 1; seed <= 50; ++seed) {
    INFO("seed " << seed);
    Profile p = machine(seed, seed % 2 == 0);
    p.machine = seed % 3 == 0 ? "a \"fast\"\nmachine" : "";
    if (seed % 5 == 0) p.operators.clear();
    CHECK(profile_from_json(to_json(p)) == p);
  }
}

TEST_CASE("profiles of GPUs are read back, and refused with the place if anything is wrong") {
  for (unsigned seed = 1; seed <= 20; ++seed) {
    INFO("seed " << seed);
    const Profile p = gpu_machine(seed);
    CHECK(profile_from_json(to_json(p)) == p);
  }
  Profile p = gpu_machine(1);
  p.real_bytes = 4;
  CHECK_THROWS_WITH(to_json(p), Catch::Contains("real_bytes is 4 with a device; expected 2 (bf16)"));
  p = gpu_machine(1);
  p.device->attention_backward = -0.5;
  CHECK_THROWS_WITH(to_json(p), Catch::Contains("device.attention_backward is -0.5"));
  p.device->attention_backward = p.device->peak_flops = 0.0;
  CHECK_THROWS_WITH(to_json(p), Catch::Contains("device.peak_flops is 0"));
  p = gpu_machine(1);
  p.device->memory_bytes = 0.0;
  CHECK_THROWS_WITH(to_json(p), Catch::Contains("device.memory_bytes is 0"));
  std::string text = to_json(gpu_machine(1));
  text.replace(text.find("\"peak_flops\""), 12, "\"peak_rate\"");
  CHECK_THROWS_WITH(profile_from_json(text), Catch::Contains("profile.device lacks the field 'peak_flops'"));
}

TEST_CASE("profiles of GPUs say whose attention was measured, older ones don't") {
  Profile p = gpu_machine(1);
  CHECK(to_json(p).find("\"attention\"") == std::string::npos);
  CHECK(!profile_from_json(to_json(p)).device->attention);
  for (const AttentionChoice choice : {AttentionChoice::ours, AttentionChoice::cudnn}) {
    p.device->attention = choice;
    CHECK(profile_from_json(to_json(p)) == p);
  }
  const std::string text = to_json(p), cudnn = "\"attention\": \"cudnn\"";
  const auto with = [&](const std::string& other) {
    return std::string(text).replace(text.find(cudnn), cudnn.size(), "\"attention\": " + other);
  };
  CHECK_THROWS_WITH(profile_from_json(with("\"theirs\"")),
                    Catch::Contains("profile.device.attention is \"theirs\"; expected ours or cudnn"));
  CHECK_THROWS_WITH(profile_from_json(with("1")),
                    Catch::Contains("profile.device.attention is 1; expected a string"));
}

TEST_CASE("a profile cut off anywhere is refused") {
  const std::string text = to_json(machine(1, true));
  for (std::size_t size = 0; size + 2 < text.size(); size += 7) {
    INFO(size << " bytes");
    CHECK_THROWS_AS(profile_from_json(std::string_view(text).substr(0, size)), InvalidInput);
  }
  CHECK_THROWS_WITH(profile_from_json(text.substr(0, 100)), Catch::Contains("the profile is not JSON"));
}

TEST_CASE("profiles with anything wrong are refused with the place") {
  CHECK_THROWS_WITH(profile_from_json("[1]"), Catch::Contains("profile is an array; expected an object"));
  CHECK_THROWS_WITH(profile_from_json("{}"), Catch::Contains("profile lacks the field 'format'"));
  CHECK_THROWS_WITH(profile_from_json(changed("slimpack-profile", "slimpack-plan")),
                    Catch::Contains("profile.format is \"slimpack-plan\"; expected \"slimpack-profile\""));
  CHECK_THROWS_WITH(profile_from_json(changed("\"version\": 1", "\"version\": 2")),
                    Catch::Contains("profile.version is 2; expected 1"));
  CHECK_THROWS_WITH(profile_from_json(changed("\"hidden\": 64", "\"hidden\": 64.5")),
                    Catch::Contains("profile.model.hidden is 64.5; expected an integer"));
  CHECK_THROWS_WITH(profile_from_json(changed("\"hidden\": 64", "\"hidden\": 18446744073709551615")),
                    Catch::Contains("profile.model.hidden is 18446744073709551615; expected an integer"));
  CHECK_THROWS_WITH(profile_from_json(changed("\"hidden\": 64", "\"hidden\": -64")),
                    Catch::Contains("profile.model.hidden is -64"));
  CHECK_THROWS_WITH(profile_from_json(changed("\"hidden\": 64", "\"hidden\": 0")),
                    Catch::Contains("hidden is 0"));
  CHECK_THROWS_WITH(profile_from_json(changed("\"kv_heads\": 2", "\"kv_heads\": 3")),
                    Catch::Contains("kv_heads is 3"));
  CHECK_THROWS_WITH(profile_from_json(changed("\"real_bytes\": 4", "\"real_bytes\": 3")),
                    Catch::Contains("real_bytes is 3; expected 2 (bf16), 4 (float) or 8 (double)"));
  CHECK_THROWS_WITH(profile_from_json(changed("\"real_bytes\": 4", "\"real_bytes\": 2")),
                    Catch::Contains("real_bytes is 2 without a device; expected the GPU's constants"));
  CHECK_THROWS_WITH(profile_from_json(changed("\"per_slice\"", "\"per_piece\"")),
                    Catch::Contains("profile.forward.layer lacks the field 'per_slice'"));
  CHECK_THROWS_WITH(profile_from_json(changed("\"bandwidth\": 1000000000.0", "\"bandwidth\": \"fast\"")),
                    Catch::Contains("profile.transfer.bandwidth is \"fast\"; expected a number"));
  CHECK_THROWS_WITH(profile_from_json(changed("\"bandwidth\": 1000000000.0", "\"bandwidth\": -1")),
                    Catch::Contains("transfer.bandwidth is -1"));
  CHECK_THROWS_WITH(profile_from_json(changed("\"name\": \"rms_norm\"", "\"name\": 7")),
                    Catch::Contains("profile.operators[0].name is 7; expected a string"));
  CHECK_THROWS_WITH(profile_from_json(changed("\"tasks\": 10", "\"tasks\": null")),
                    Catch::Contains("profile.fit.tasks is null"));
}

TEST_CASE("what no measurement can have is not written") {
  Profile p = machine(1, true);
  p.forward.layer.per_pack = std::numeric_limits<double>::infinity();
  CHECK_THROWS_WITH(to_json(p), Catch::Contains("forward.layer.per_pack is inf"));
}
#endif
