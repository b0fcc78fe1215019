#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "slimpack/core/error.hpp"
#include "slimpack/milp/back_end.hpp"
#include "slimpack/milp/model.hpp"
#include "slimpack/partition/flexible_groups.hpp"

namespace slimpack {

/// Samples in buckets of like lengths: ends of the buckets, such that lifting all samples to the longest of their bucket adds the
/// fewest tokens (FlexSP, section 4.1.2). @param samples longest first. O(samples^2 * buckets).
[[nodiscard]] inline std::vector<std::size_t> length_buckets(const RankDomain& domain,
                                                             std::span<const SampleId> samples,
                                                             std::size_t buckets) {
  constexpr double infinite = std::numeric_limits<double>::infinity();
  const std::size_t n = samples.size();
  require(buckets > 0, "buckets is 0; expected a positive number");
  buckets = std::min(buckets, n);
  std::vector<std::vector<double>> added(buckets + 1, std::vector<double>(n + 1, infinite));
  std::vector<std::vector<std::size_t>> from(buckets + 1, std::vector<std::size_t>(n + 1, 0));
  added[0][0] = 0.0;
  for (std::size_t q = 1; q <= buckets; ++q) {
    for (std::size_t begin = q - 1; begin < n; ++begin) {
      double more = added[q - 1][begin];
      const Tokens longest = domain.length(samples[begin]);
      for (std::size_t end = begin + 1; end <= n && more < infinite; ++end) {
        more += static_cast<double>(longest - domain.length(samples[end - 1]));
        if (more >= added[q][end]) continue;
        added[q][end] = more;
        from[q][end] = begin;
      }
    }
  }
  std::vector<std::size_t> ends(buckets);
  for (std::size_t q = buckets, end = n; q > 0; end = from[q--][end]) ends[q - 1] = end;
  return ends;
}

/// FlexSP's program for one micro-batch (Wang et al., ASPLOS 2025, section 4.1).
///
/// Data: ranks N; groups p that may be formed, N / d of each size d; buckets q of b_q samples, each counted as long as
/// the longest of them; work w_qp and tokens of each rank t_qp of such a sample in a group; at most L tokens of a rank.
/// Variables: m_p in {0, 1}, group p is formed; A_qp in {0, …, b_q}, samples of the bucket in the group; C, the work of
/// the busiest.
///
///     minimise    C
///     subject to  sum_q w_qp A_qp <= C         for every group p
///                 sum_q t_qp A_qp <= L m_p     for every group p
///                 sum_p d_p m_p <= N
///                 sum_p A_qp = b_q             for every bucket q
///                 m_p >= m_(p + 1)             for groups of one size
///
/// The last line changes no optimum; groups of one size are interchangeable. The objective is in multiples of `scale`.
class FlexibleGroupsModel {
 public:
  /// @param domain has to outlive this. @param samples longest first. @param buckets at most.
  FlexibleGroupsModel(const RankDomain& domain, Tokens limit, std::span<const SampleId> samples,
                      std::size_t buckets)
      : domain_(&domain),
        samples_(samples.begin(), samples.end()),
        ends_(length_buckets(domain, samples, buckets)),
        limit_(static_cast<double>(limit)) {
    const double least = least_group_work(domain, limit, samples);
    if (least > 0.0 && std::isfinite(least)) scale_ = least;
    for (std::size_t place = domain.sizes(); place-- > 0;)
      places_.insert(places_.end(), domain.ranks() / domain.size(place), place);
    add_variables();
    add_rows();
    model_.set_objective(Direction::minimise, {{busiest_, 1.0}});
  }

  [[nodiscard]] const MilpModel& model() const { return model_; }
  [[nodiscard]] double scale() const { return scale_; }

  /// The groups that a solution describes, and the work of the busiest with the samples as long as they are.
  [[nodiscard]] FlexibleRow decode(std::span<const double> values) const {
    require(values.size() == model_.variables(), "the point has ", values.size(), " values; expected ",
            model_.variables());
    FlexibleRow out{.row = {}, .work = 0.0};
    std::vector<std::size_t> next(ends_.size());  // sample of each bucket
    for (std::size_t q = 1; q < ends_.size(); ++q) next[q] = ends_[q - 1];
    std::size_t first = 0;
    for (std::size_t p = 0; p < places_.size(); ++p) {
      RankGroup group{.first = first, .size = domain_->size(places_[p])};
      double work = 0.0;
      for (std::size_t q = 0; q < ends_.size(); ++q) {
        for (auto left = std::lround(values[taken(q, p)]); left > 0; --left) {
          const SampleId id = samples_[next[q]++];
          work += domain_->work(id, places_[p]);
          group.samples.push_back(id);
        }
      }
      if (group.samples.empty()) continue;
      first += group.size;
      out.work = std::max(out.work, work);
      out.row.push_back(std::move(group));
    }
    return out;
  }

 private:
  [[nodiscard]] VariableId taken(std::size_t q, std::size_t p) const {
    return static_cast<VariableId>(1 + places_.size() + q * places_.size() + p);
  }
  [[nodiscard]] SampleId longest(std::size_t q) const { return samples_[q == 0 ? 0 : ends_[q - 1]]; }
  [[nodiscard]] double size(std::size_t q) const {
    return static_cast<double>(ends_[q] - (q == 0 ? 0 : ends_[q - 1]));
  }

  void add_variables() {
    busiest_ = model_.add_variable("busiest", 0.0, no_bound);
    for (std::size_t p = 0; p < places_.size(); ++p) model_.add_binary(concat("m_", p));
    for (std::size_t q = 0; q < ends_.size(); ++q) {
      for (std::size_t p = 0; p < places_.size(); ++p)
        model_.add_variable(concat("A_", q, "_", p), 0.0, size(q), VariableKind::integer);
    }
  }

  void add_rows() {
    std::vector<Term> work, tokens, ranks;
    for (std::size_t p = 0; p < places_.size(); ++p) {
      const auto formed = static_cast<VariableId>(1 + p);
      work = {{busiest_, -1.0}};
      tokens = {{formed, -1.0}};
      for (std::size_t q = 0; q < ends_.size(); ++q) {
        work.push_back({taken(q, p), domain_->work(longest(q), places_[p]) / scale_});
        tokens.push_back({taken(q, p), domain_->tokens_per_rank(longest(q), places_[p]) / limit_});
      }
      model_.add_row(concat("work_", p), -no_bound, 0.0, work);
      model_.add_row(concat("tokens_", p), -no_bound, 0.0, tokens);
      ranks.push_back({formed, static_cast<double>(domain_->size(places_[p]))});
      if (p > 0 && places_[p - 1] == places_[p])
        model_.add_row(concat("order_", p), 0.0, no_bound, {{formed - 1, 1.0}, {formed, -1.0}});
    }
    model_.add_row("ranks", -no_bound, static_cast<double>(domain_->ranks()), ranks);
    for (std::size_t q = 0; q < ends_.size(); ++q) {
      std::vector<Term> all;
      for (std::size_t p = 0; p < places_.size(); ++p) all.push_back({taken(q, p), 1.0});
      model_.add_row(concat("bucket_", q), size(q), size(q), all);
    }
  }

  const RankDomain* domain_;
  std::vector<SampleId> samples_;
  std::vector<std::size_t> ends_;    // of the buckets among the samples
  std::vector<std::size_t> places_;  // [group] of its size
  double limit_, scale_ = 1.0;
  VariableId busiest_ = 0;
  MilpModel model_;
};

}  // namespace slimpack
