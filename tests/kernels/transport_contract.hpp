#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <random>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "kernels/transport/collectives.hpp"

// What every transport has to do, as functions that all ranks call with the same seed. Ranks derive from it what the
// others do, so each checks what it receives without asking. A broken promise throws, naming seed and rank.
namespace slimpack::testing {

using kernels::Group;
using kernels::Part;
using kernels::Request;
using kernels::Tag;
using kernels::Transport;

template <class... Parts>
void promise(bool ok, const Parts&... parts) {
  if (!ok) throw std::logic_error(concat(parts...));
}

/// The bytes of the n-th message of a run, the same wherever they are computed.
inline std::vector<std::byte> bytes_of(std::uint64_t seed, std::size_t n, std::size_t size) {
  std::vector<std::byte> bytes(size);
  std::uint64_t x = seed * 0x9e3779b97f4a7c15U + n;
  for (std::byte& byte : bytes) {
    x = x * 6364136223846793005U + 1442695040888963407U;
    byte = static_cast<std::byte>(x >> 56);
  }
  return bytes;
}

/// One message of a run.
struct Letter {
  std::size_t from = 0, to = 0, number = 0, size = 0;
  Tag tag = 0;
};

/// Random letters between random ranks, oneself included; few tags, so that several have the same.
inline std::vector<Letter> random_letters(std::size_t ranks, std::uint64_t seed, std::size_t largest) {
  std::mt19937_64 random(seed);
  std::vector<Letter> letters(std::uniform_int_distribution<std::size_t>(0, 60)(random));
  std::uniform_int_distribution<std::size_t> rank(0, ranks - 1), size(0, largest), small(0, 40);
  std::uniform_int_distribution<Tag> tag(0, 5);
  for (std::size_t i = 0; i < letters.size(); ++i) {
    letters[i] = {rank(random), rank(random), i, (random() % 4 == 0 ? size : small)(random), tag(random)};
  }
  return letters;
}

/// Sends and receives in different random orders, letters of the same ranks and tag in their own; waits and tests in
/// yet another order.
template <Transport T>
void letters_arrive(T& transport, std::uint64_t seed, std::size_t largest = 100'000) {
  const std::vector<Letter> letters = random_letters(transport.size(), seed, largest);
  std::mt19937_64 own(seed * 31 + transport.rank());
  std::vector<std::vector<std::byte>> out, in;
  std::vector<std::size_t> expected;
  std::vector<Request> requests;
  std::vector<std::size_t> moves;  // letter i is sent as 2 i, received as 2 i + 1
  for (const Letter& letter : letters) {
    if (letter.from == transport.rank()) moves.push_back(2 * letter.number);
    if (letter.to == transport.rank()) moves.push_back(2 * letter.number + 1);
  }
  std::shuffle(moves.begin(), moves.end(), own);
  const auto key = [&](std::size_t move) {
    const Letter& letter = letters[move / 2];
    return std::array<std::size_t, 4>{move % 2, letter.from, letter.to, letter.tag};
  };
  for (std::size_t i = 0; i < moves.size(); ++i) {  // of those with the same key, the lowest number first
    for (std::size_t j = i + 1; j < moves.size(); ++j) {
      if (key(moves[i]) == key(moves[j]) && moves[j] < moves[i]) std::swap(moves[i], moves[j]);
    }
  }
  out.reserve(moves.size());
  in.reserve(moves.size());
  for (const std::size_t move : moves) {
    const Letter& letter = letters[move / 2];
    if (move % 2 == 0) {
      out.push_back(bytes_of(seed, letter.number, letter.size));
      requests.push_back(transport.isend(letter.to, letter.tag, out.back()));
    } else {
      in.emplace_back(letter.size);
      expected.push_back(letter.number);
      requests.push_back(transport.irecv(letter.from, letter.tag, in.back()));
    }
  }
  std::shuffle(requests.begin(), requests.end(), own);
  for (Request& request : requests) {
    if (own() % 2 == 0 && transport.test(request)) continue;
    transport.wait(request);
    promise(transport.test(request), "seed ", seed, ": a request that was waited for is not complete");
  }
  for (std::size_t i = 0; i < in.size(); ++i) {
    promise(in[i] == bytes_of(seed, expected[i], in[i].size()), "seed ", seed, ", rank ", transport.rank(),
            ": letter ", expected[i], " has other content");
  }
}

/// Value `i` of a rank; sums of these depend on their order.
template <class V>
V value_of(std::uint64_t seed, std::size_t rank, std::size_t i) {
  std::uint64_t x = (seed * 7919 + rank * 104729 + i) * 0x9e3779b97f4a7c15U;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9U;
  return static_cast<V>(static_cast<double>((x >> 32) % 1501) / 7.0);
}

template <class V>
std::vector<V> values_of(std::uint64_t seed, std::size_t rank, std::size_t n) {
  std::vector<V> values(n);
  for (std::size_t i = 0; i < n; ++i) values[i] = value_of<V>(seed, rank, i);
  return values;
}

/// One of two random groups that share all ranks among them: the one that contains the rank, in random order.
inline std::vector<std::size_t> random_group(std::size_t ranks, std::size_t rank, std::uint64_t seed) {
  std::vector<std::size_t> all(ranks);
  std::iota(all.begin(), all.end(), std::size_t{0});
  std::mt19937_64 random(seed);
  std::shuffle(all.begin(), all.end(), random);
  const auto cut = all.begin() + std::uniform_int_distribution<std::ptrdiff_t>(0, std::ssize(all))(random);
  const bool first = std::find(all.begin(), cut, rank) != cut;
  return first ? std::vector<std::size_t>(all.begin(), cut) : std::vector<std::size_t>(cut, all.end());
}

/// The documented order of a reduction, literally.
template <class V>
std::vector<V> reduced(std::uint64_t seed, std::span<const std::size_t> ranks, std::size_t n) {
  std::vector<V> result(n);
  for (std::size_t p = 0; p < ranks.size(); ++p) {
    const Part part = kernels::part_of(n, ranks.size(), p);
    for (std::size_t i = part.begin; i < part.end; ++i) {
      V sum = value_of<V>(seed, ranks[(p + 1) % ranks.size()], i);
      for (std::size_t k = 2; k <= ranks.size(); ++k) {
        sum = static_cast<V>(sum + value_of<V>(seed, ranks[(p + k) % ranks.size()], i));
      }
      result[i] = sum;
    }
  }
  return result;
}

template <class V, Transport T>
void reductions_hold(T& transport, Group<T>& group, std::uint64_t seed, std::size_t n) {
  const std::vector<V> expected = reduced<V>(seed, group.ranks(), n);
  std::vector<V> values = values_of<V>(seed, transport.rank(), n);
  group.reduce_scatter(std::span<V>(values));
  const Part own = group.own_part(n);
  promise(std::equal(values.begin() + static_cast<std::ptrdiff_t>(own.begin),
                     values.begin() + static_cast<std::ptrdiff_t>(own.end),
                     expected.begin() + static_cast<std::ptrdiff_t>(own.begin)),
          "seed ", seed, ", rank ", transport.rank(), ": reduce_scatter of ", n, " values over ",
          group.size());
  group.all_gather(std::span<V>(values));
  promise(values == expected, "seed ", seed, ": all_gather of ", n, " values over ", group.size());
  values = values_of<V>(seed, transport.rank(), n);
  group.all_reduce(std::span<V>(values));
  promise(values == expected, "seed ", seed, ": all_reduce of ", n, " values over ", group.size());
  values = values_of<V>(seed, transport.rank(), n);
  group.all_reduce(std::span<V>(values), [](V a, V b) { return std::max(a, b); });
  for (std::size_t i = 0; i < n; ++i) {
    V most = value_of<V>(seed, group.ranks()[0], i);
    for (const std::size_t rank : group.ranks()) most = std::max(most, value_of<V>(seed, rank, i));
    promise(values[i] == most, "seed ", seed, ": the largest of value ", i);
  }
}

template <class V, Transport T>
void exchanges_hold(T& transport, Group<T>& group, std::uint64_t seed, std::size_t n) {
  const auto size_of = [&](std::size_t from, std::size_t to) { return (seed + 3 * from + 5 * to) % (n + 1); };
  const std::size_t self = transport.rank();
  std::vector<std::vector<V>> out, in;
  for (const std::size_t rank : group.ranks()) {
    out.push_back(values_of<V>(seed + rank, self, size_of(self, rank)));
    in.emplace_back(size_of(rank, self));
  }
  const std::vector<std::span<const V>> outs(out.begin(), out.end());
  const std::vector<std::span<V>> ins(in.begin(), in.end());
  group.all_to_all(std::span<const std::span<const V>>(outs), std::span<const std::span<V>>(ins));
  for (std::size_t p = 0; p < group.size(); ++p) {
    const std::size_t rank = group.ranks()[p];
    promise(in[p] == values_of<V>(seed + self, rank, size_of(rank, self)), "seed ", seed,
            ": all_to_all from ", rank);
  }
  const std::vector<V> own = values_of<V>(seed, self, n * group.size());
  std::vector<V> got(own.size());
  group.all_to_all(std::span<const V>(own), std::span<V>(got));
  for (std::size_t p = 0; p < group.size(); ++p) {
    for (std::size_t i = 0; i < n; ++i) {
      promise(got[p * n + i] == value_of<V>(seed, group.ranks()[p], group.position() * n + i), "seed ", seed,
              ": all_to_all of equal blocks");
    }
  }
}

/// What a rank holds goes round the whole ring, two shifts under way at a time.
template <Transport T>
void ring_turns(T& transport, Group<T>& group, std::uint64_t seed, std::size_t n) {
  const auto size_of = [&](std::size_t position) {
    return n + group.ranks()[position % group.size()] % (group.size() == 1 ? 1 : 7);
  };
  std::size_t at = group.position();  // whose values this rank holds
  std::vector<double> doubles = values_of<double>(seed, transport.rank(), size_of(at));
  std::vector<float> floats = values_of<float>(seed, transport.rank(), size_of(at));
  for (std::size_t round = 0; round < group.size(); ++round) {
    at = (at + group.size() - 1) % group.size();
    std::vector<double> next_doubles(size_of(at));
    std::vector<float> next_floats(size_of(at));
    auto one = group.start_ring_shift(std::span<const double>(doubles), std::span<double>(next_doubles));
    auto two = group.start_ring_shift(std::span<const float>(floats), std::span<float>(next_floats));
    group.finish(one);
    group.finish(two);
    doubles.swap(next_doubles);
    floats.swap(next_floats);
    promise(doubles == values_of<double>(seed, group.ranks()[at], doubles.size()), "seed ", seed,
            ": ring of ", group.size());
    promise(floats == values_of<float>(seed, group.ranks()[at], floats.size()), "seed ", seed,
            ": second ring");
  }
  promise(at == group.position(), "seed ", seed, ": the ring does not end where it began");
}

/// Nobody leaves a barrier before all have come. Ranks of one machine have one steady clock.
template <Transport T>
void barriers_hold(T& transport, Group<T>& group, std::uint64_t seed) {
  using Clock = std::chrono::steady_clock;
  std::this_thread::sleep_for(std::chrono::microseconds((seed + transport.rank()) * 7919 % 300));
  const auto came = Clock::now().time_since_epoch().count();
  group.barrier();
  const auto left = Clock::now().time_since_epoch().count();
  const auto all_came = group.all_gather_value(came), all_left = group.all_gather_value(left);
  promise(*std::min_element(all_left.begin(), all_left.end()) >=
              *std::max_element(all_came.begin(), all_came.end()),
          "seed ", seed, ": a barrier of ", group.size(), " was left too early");
  const auto ranks = group.all_gather_value(transport.rank());
  promise(std::equal(ranks.begin(), ranks.end(), group.ranks().begin(), group.ranks().end()), "seed ", seed,
          ": all_gather_value lost the order");
}

/// All collectives, on a random group.
template <Transport T>
void collectives_hold(T& transport, std::uint64_t seed) {
  Group<T> group(transport, random_group(transport.size(), transport.rank(), seed));
  std::mt19937_64 random(seed);
  const std::size_t n = std::uniform_int_distribution<std::size_t>(0, 3 * transport.size())(random) *
                        (random() % 3 == 0 ? 211 : 1);
  reductions_hold<double>(transport, group, seed, n);
  reductions_hold<float>(transport, group, seed, n);
  reductions_hold<std::int64_t>(transport, group, seed, n);
  exchanges_hold<double>(transport, group, seed, n % 50);
  exchanges_hold<std::uint8_t>(transport, group, seed, n % 50);
  ring_turns(transport, group, seed, n);
  barriers_hold(transport, group, seed);
}

/// Everything a transport has to do while all ranks are well.
template <Transport T>
void keeps_the_contract(T& transport, std::uint64_t seed, unsigned rounds) {
  for (unsigned i = 0; i < rounds; ++i) {
    const std::uint64_t s = seed + i;
    transport.set_task(concat("round ", s));
    letters_arrive(transport, s);
    collectives_hold(transport, s);
  }
}

}  // namespace slimpack::testing
