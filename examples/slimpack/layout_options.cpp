#include "layout_options.hpp"

namespace slimpack::command {

namespace po = boost::program_options;

void add_layout_options(po::options_description& options) {
  options.add_options()(
      "gpus", po::value<std::int32_t>()->value_name("N"),
      "choose the best layout of N devices; of --dp, --tp, --cp and --pp, what is given is kept");
}

Layout layout_from(const po::variables_map& values, std::int32_t none) {
  const auto given = [&](const char* name) {
    return values[name].defaulted() ? none : values[name].as<std::int32_t>();
  };
  return {.dp = given("dp"), .tp = given("tp"), .cp = given("cp"), .pp = given("pp")};
}

std::optional<LayoutSpace> space_from(const po::variables_map& values, bool of_profile) {
  if (values.count("gpus") == 0) return std::nullopt;
  LayoutSpace space{.devices = values["gpus"].as<std::int32_t>(), .given = layout_from(values, 0)};
  for (std::int32_t* const size : {&space.given.tp, &space.given.cp})
    if (of_profile && *size == 0) *size = 1;
  return space;
}

}  // namespace slimpack::command
