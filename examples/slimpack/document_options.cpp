#include "document_options.hpp"

#include <string_view>

#include "arguments.hpp"
#include "options.hpp"
#include "token_count.hpp"

namespace slimpack::command {

namespace po = boost::program_options;

namespace {

/// Lengths separated by commas, or none.
std::vector<Tokens> queues_from(const std::string& text) {
  std::vector<Tokens> queues;
  if (text == "none") return queues;
  for (const std::string& part : comma_separated(text)) {
    const Tokens tokens = parse_token_count(part).value_or(0);
    require(tokens > 0 && tokens <= most_tokens && (queues.empty() || tokens > queues.back()),
            "--queues is '", text, "'; expected rising lengths from 1 to 2^40, separated by commas, or none");
    queues.push_back(tokens);
  }
  return queues;
}

ShardingPolicy sharding_from(const std::string& name) {
  if (name == "per-sequence") return ShardingPolicy::per_sequence;
  if (name == "per-document") return ShardingPolicy::per_document;
  if (name == "adaptive") return ShardingPolicy::adaptive;
  require(name == "mixed", "--sharding is '", name,
          "'; expected per-sequence, per-document, adaptive or mixed");
  return ShardingPolicy::mixed;
}

}  // namespace

DocumentOptions document_options(const po::variables_map& values) {
  DocumentOptions o;
  if (values.count("micro-batches") != 0) o.micro_batches = at_least(values, "micro-batches", 1);
  require(o.micro_batches <= 1000000, "--micro-batches is ", o.micro_batches, "; expected 1 to 1000000");
  if (values.count("max-tokens") != 0) o.max_tokens = tokens_of(values, "max-tokens");
  if (values.count("queues") != 0) o.queues = queues_from(values["queues"].as<std::string>());
  o.max_delay = static_cast<std::int64_t>(at_least(values, "max-delay", 0));
  const auto& release = values["release"].as<std::string>();
  require(release == "full" || release == "balanced", "--release is '", release,
          "'; expected full or balanced");
  if (release == "balanced") o.release = OutlierRelease::balanced;
  o.window = at_least(values, "window", 1);
  if (values.count("sharding") != 0) o.sharding = sharding_from(values["sharding"].as<std::string>());
  o.given_order = values.count("given-order") != 0;
  o.drain = values.count("drain") != 0;
  return o;
}

}  // namespace slimpack::command
