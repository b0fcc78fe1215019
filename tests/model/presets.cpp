#include "slimpack/model/presets.hpp"

#include <catch2/catch.hpp>
#include <numeric>

#include "slimpack/model/parallel.hpp"

using namespace slimpack;

TEST_CASE("presets are valid and as large as their names say") {
  for (const Transformer& m : transformer_presets()) CHECK_NOTHROW(validate(m));
  for (const Device& d : device_presets()) CHECK_NOTHROW(validate(d));
  CHECK(device_preset("h100").gemm_efficiency == 0.66);
  CHECK(device_preset("h100").gemm_backward_efficiency == 0.66);
  CHECK(device_preset("a800").gemm_backward_efficiency == 0.72);
  CHECK(parameters(transformer_preset("llama-7b")) == Approx(6.74e9).epsilon(0.01));
  CHECK(parameters(transformer_preset("llama-13b")) == Approx(13.0e9).epsilon(0.01));
  CHECK(parameters(transformer_preset("llama-70b")) == Approx(68.7e9).epsilon(0.02));
  CHECK(parameters(transformer_preset("wlb-550m")) == Approx(0.66e9).epsilon(0.02));
  CHECK(parameters(transformer_preset("wlb-30b")) == Approx(30e9).epsilon(0.02));
  CHECK(parameters(transformer_preset("wlb-70b")) == Approx(68.5e9).epsilon(0.02));
  CHECK(parameters(transformer_preset("llama-150b")) == Approx(150e9).epsilon(0.05));
  CHECK_THROWS_WITH(transformer_preset("llama-9b"),
                    Catch::Contains("unknown model 'llama-9b'") && Catch::Contains("llama-13b"));
  CHECK_THROWS_WITH(device_preset("h1"), Catch::Contains("h100, h200, h800, a800, a100"));
}

TEST_CASE("layers are split evenly, more of them in front") {
  CHECK(split_layers(40, 8) == std::vector<std::int32_t>(8, 5));
  CHECK(split_layers(10, 4) == std::vector<std::int32_t>{3, 3, 2, 2});
  for (std::int32_t pp = 1; pp <= 32; ++pp) {
    const auto split = split_layers(32, pp);
    CHECK(std::accumulate(split.begin(), split.end(), 0) == 32);
  }
}

TEST_CASE("impossible jobs name the value") {
  Job job{transformer_preset("llama-7b"), device_preset("h100"), {.dp = 1, .tp = 1, .cp = 1, .pp = 33}};
  CHECK_THROWS_WITH(validate(job), Catch::Contains("pp is 33") && Catch::Contains("32 layers"));
  job.layout = {.dp = 0};
  CHECK_THROWS_WITH(validate(job), Catch::Contains("dp is 0"));
  job.layout = {.tp = 3};
  CHECK_THROWS_WITH(validate(job), Catch::Contains("tp is 3"));
  job.layout = {.dp = 4, .tp = 4, .cp = 2147483647, .pp = 8};
  CHECK_THROWS_WITH(validate(job), Catch::Contains("cp 2147483647") && Catch::Contains("at most"));
  job.layout = {.dp = 1 << 20, .cp = 1 << 10, .pp = 1};
  CHECK_NOTHROW(validate(job));
  job.layout.pp = 2;
  CHECK_THROWS_WITH(validate(job), Catch::Contains("more than 2147483647 devices"));
  job.layout = {};
  job.device.gemm_efficiency = 1.5;
  CHECK_THROWS_WITH(validate(job), Catch::Contains("gemm_efficiency is 1.5"));
  job.device = device_preset("h100");
  job.device.gemm_backward_efficiency = 0.0;
  CHECK_THROWS_WITH(validate(job), Catch::Contains("gemm_backward_efficiency is 0; expected a fraction"));
  job.device = device_preset("h100");
  job.model.kv_heads = 5;
  CHECK_THROWS_WITH(validate(job), Catch::Contains("kv_heads is 5"));
}
