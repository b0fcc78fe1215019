#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "slimpack/core/error.hpp"
#include "slimpack/core/packs.hpp"
#include "slimpack/cost/concepts.hpp"
#include "slimpack/cost/inverse.hpp"
#include "slimpack/milp/model.hpp"
#include "slimpack/slicing/sample_stream.hpp"

namespace slimpack {

struct SliceBoundaryOptions {
  Tokens tile = 128;       ///< boundaries are multiples of this many tokens, except the end of a sample
  Tokens whole_up_to = 0;  ///< samples of at most this many tokens are not sliced
  /// A sample is begun only when all sliced samples before it have ended, in the order given: at any time one
  /// alone is held in part.
  bool one_at_a_time = false;
};

/// The slice boundaries of one pipeline as a mixed-integer linear program (SlimPack, section 4.1.1, Phase 2).
/// The paper names such a program without stating it; this one finds the packs, and so the boundaries, whose
/// largest cost is least. As the costs' sum is given, the least largest one is also what comes closest from
/// above to the paper's target, the mean.
///
/// Data: parts b of samples i, in the order in which the pass takes them: tiles, or the whole sample if it is
/// not to be sliced; c_ib the cost of a part, the difference of the costs of what the pass has taken of its
/// sample after and before it; packs k = 1..m.
/// Variables: v_ibk in {0, 1} for k < m, part b of sample i is in one of the packs 1..k (v_ib0 = 0,
/// v_ibm = 1); T, the largest cost.
///
///     minimise    T
///     subject to  sum_ib c_ib (v_ibk - v_ib(k-1)) <= T    for every pack k
///                 v_ibk <= v_ib(k+1)                      packs hold what is new to them
///                 v_i(b+1)k <= v_ibk                      parts in order
///                 v_j1k <= v_in(i)k                       where sample j is begun after sample i has ended
///                 T >= mean, T >= c_ib
///
/// With a cost model in which slices add up to their sample, as those without context parallelism are, this
/// is exact. Otherwise it prices a slice by what it adds to the slices before it. It does not know of the
/// forward packs that end before a backward slice may begin.
class SliceBoundaryModel {
 public:
  /// @param samples in the pass's sequence, `length` and `id` of each. @param packs at least 1.
  /// @throws InvalidInput if there is no sample or pack, a length or the tile is not positive, or a cost is
  /// negative or not finite. O(parts packs).
  template <CostModel M>
  SliceBoundaryModel(std::span<const StreamSample> samples, std::size_t packs, const M& cost, Pass pass,
                     const SliceBoundaryOptions& options = {})
      : samples_(samples.begin(), samples.end()), packs_(packs), pass_(pass), options_(options) {
    require(!samples.empty(), "0 samples; expected at least 1");
    require(packs > 0, "0 packs for ", samples.size(), " samples; expected at least 1");
    require(options.tile > 0, "tile is ", options.tile, "; expected at least 1 token");
    double sum = 0.0;
    for (std::size_t i = 0; i < samples.size(); ++i) {
      require(samples[i].length > 0, "sample ", i, " has ", samples[i].length,
              " tokens; expected a positive number");
      begin_.push_back(cost_.size());
      sum += add_parts(i, cost);
    }
    begin_.push_back(cost_.size());
    bound_ = std::max(sum / static_cast<double>(packs), *std::max_element(cost_.begin(), cost_.end()));
    if (bound_ > 0.0) scale_ = bound_;
    add_variables();
    add_load_rows();
    add_order_rows();
    model_.set_objective(Direction::minimise, {{0, 1.0}});
  }

  /// The objective is in multiples of `scale`.
  [[nodiscard]] const MilpModel& model() const { return model_; }
  /// The seconds that the objective's 1 stands for: no largest pack is below.
  [[nodiscard]] double scale() const { return scale_; }

  /// Lets the solver start from packs, those of `MicroPackCutter` for example. @throws InvalidInput like
  /// `encode`.
  void set_initial(const Packs& packs) { model_.set_initial_solution(encode(packs)); }

  /// The values of the variables for given packs.
  /// @throws InvalidInput if there are too many, or they do not hold every part of every sample once. Whether
  /// they keep the order is checked by the solve. O(parts packs).
  [[nodiscard]] std::vector<double> encode(const Packs& packs) const {
    require(packs.size() <= packs_, packs.size(), " packs; expected at most ", packs_);
    std::vector<std::size_t> pack_of(cost_.size(), packs_);
    for (std::size_t k = 0; k < packs.size(); ++k) {
      for (const Slice& slice : packs[k]) mark(slice, k, pack_of);
    }
    std::vector<double> values(model_.variables(), 0.0), load(packs_, 0.0);
    for (std::size_t part = 0; part < cost_.size(); ++part) {
      require(pack_of[part] < packs_, "no pack holds part ", part, "; expected every token in one");
      load[pack_of[part]] += cost_[part] / scale_;
      for (std::size_t k = pack_of[part]; k + 1 < packs_; ++k) values[variable(part, k)] = 1.0;
    }
    values[0] = std::max(*std::max_element(load.begin(), load.end()), bound_ / scale_);
    return values;
  }

  /// The packs that values of the variables say, without those that would be empty; samples in their
  /// sequence.
  /// @throws InvalidInput if there is not a value for every variable. O(parts packs).
  [[nodiscard]] Packs decode(std::span<const double> values) const {
    require(values.size() == model_.variables(), "the point has ", values.size(), " values; expected ",
            model_.variables());
    std::vector<std::size_t> pack_of(cost_.size(), packs_ - 1);
    for (std::size_t part = 0; part < cost_.size(); ++part) {
      for (std::size_t k = packs_ - 1; k-- > 0;) {
        if (values[variable(part, k)] > 0.5) pack_of[part] = k;
      }
    }
    Packs packs;
    for (std::size_t k = 0; k < packs_; ++k) {
      bool any = false;
      for (std::size_t i = 0; i < samples_.size(); ++i) any = add_slice(i, k, pack_of, packs) || any;
      if (any) packs.close();
    }
    return packs;
  }

 private:
  /// Tokens that the pass has taken of a sample behind its first `parts` parts.
  [[nodiscard]] Tokens taken_behind(std::size_t i, std::int64_t parts, std::int64_t count) const {
    const Tokens length = samples_[i].length;
    if (parts == 0 || parts == count) return parts == 0 ? 0 : length;
    return pass_ == Pass::forward ? parts * options_.tile : length - (count - parts) * options_.tile;
  }
  [[nodiscard]] std::int64_t parts_of(std::size_t i) const {
    const Tokens length = samples_[i].length;
    return length <= options_.whole_up_to ? 1 : (length + options_.tile - 1) / options_.tile;
  }
  [[nodiscard]] Slice slice(std::size_t i, Tokens from, Tokens to) const {
    const Tokens length = samples_[i].length;
    return pass_ == Pass::forward ? Slice{samples_[i].id, from, to}
                                  : Slice{samples_[i].id, length - to, length - from};
  }

  /// Appends the costs of a sample's parts; returns their sum.
  template <CostModel M>
  double add_parts(std::size_t i, const M& cost) {
    double before = 0.0;
    const std::int64_t count = parts_of(i);
    for (std::int64_t b = 1; b <= count; ++b) {
      const Slice taken = slice(i, 0, taken_behind(i, b, count));
      const double seconds = pipeline_seconds(cost, taken.begin, taken.end, pass_);
      require(std::isfinite(seconds) && seconds >= before, "the cost model takes ", seconds, " seconds for ",
              taken.size(), " tokens of sample ", i, "; expected a finite number, at least the ", before,
              " of fewer tokens");
      cost_.push_back(seconds - before);
      before = seconds;
    }
    return before;
  }

  [[nodiscard]] std::size_t variable(std::size_t part, std::size_t pack) const {
    return 1 + part * (packs_ - 1) + pack;
  }
  [[nodiscard]] VariableId id(std::size_t part, std::size_t pack) const {
    return static_cast<VariableId>(variable(part, pack));
  }

  void add_variables() {
    model_.add_variable("largest", bound_ / scale_, no_bound);
    for (std::size_t i = 0; i < samples_.size(); ++i) {
      for (std::size_t part = begin_[i]; part < begin_[i + 1]; ++part) {
        for (std::size_t k = 0; k + 1 < packs_; ++k)
          model_.add_binary(concat("v_", samples_[i].id, "_", part - begin_[i], "_", k));
      }
    }
  }

  /// T is at least the cost of each pack. The last pack has what the others leave.
  void add_load_rows() {
    std::vector<Term> terms;
    for (std::size_t k = 0; k < packs_; ++k) {
      terms.assign(1, {0, -1.0});
      double all = 0.0;
      for (std::size_t part = 0; part < cost_.size(); ++part) {
        const double share = cost_[part] / scale_;
        if (share < 1e-9) continue;
        if (k + 1 < packs_) terms.push_back({id(part, k), share});
        if (k > 0) terms.push_back({id(part, k - 1), -share});
        if (k + 1 == packs_) all += share;
      }
      model_.add_row(concat("pack_", k), -no_bound, -all, terms);
    }
  }

  void add_order_rows() {
    const auto at_most = [&](std::size_t a, std::size_t b) {
      model_.add_row("", -no_bound, 0.0,
                     {{static_cast<VariableId>(a), 1.0}, {static_cast<VariableId>(b), -1.0}});
    };
    for (std::size_t part = 0; part < cost_.size(); ++part) {
      for (std::size_t k = 0; k + 2 < packs_; ++k) at_most(variable(part, k), variable(part, k + 1));
    }
    std::size_t before = samples_.size();  // the sliced sample before
    for (std::size_t i = 0; i < samples_.size(); ++i) {
      for (std::size_t part = begin_[i]; part + 1 < begin_[i + 1]; ++part) {
        for (std::size_t k = 0; k + 1 < packs_; ++k) at_most(variable(part + 1, k), variable(part, k));
      }
      if (!options_.one_at_a_time || samples_[i].length <= options_.whole_up_to) continue;
      for (std::size_t k = 0; before < samples_.size() && k + 1 < packs_; ++k)
        at_most(variable(begin_[i], k), variable(begin_[before + 1] - 1, k));
      before = i;
    }
  }

  /// Notes the pack of the parts of a slice.
  void mark(const Slice& held, std::size_t pack, std::vector<std::size_t>& pack_of) const {
    for (std::size_t i = 0; i < samples_.size(); ++i) {
      if (samples_[i].id != held.sample) continue;
      const auto count = static_cast<std::int64_t>(begin_[i + 1] - begin_[i]);
      Tokens tokens = 0;
      for (std::int64_t b = 0; b < count; ++b) {
        const Slice part = slice(i, taken_behind(i, b, count), taken_behind(i, b + 1, count));
        if (part.begin < held.begin || part.end > held.end) continue;
        tokens += part.size();
        std::size_t& mine = pack_of[begin_[i] + static_cast<std::size_t>(b)];
        require(mine == packs_, "packs ", mine, " and ", pack, " hold the same tokens of sample ",
                held.sample);
        mine = pack;
      }
      require(tokens == held.size(), "pack ", pack, " holds tokens [", held.begin, ", ", held.end,
              ") of sample ", held.sample, "; expected boundaries of parts");
      return;
    }
    require(false, "pack ", pack, " holds sample ", held.sample, "; expected one of the samples");
  }

  /// Adds what pack `k` holds of a sample to the open pack; false if it holds nothing.
  bool add_slice(std::size_t i, std::size_t k, const std::vector<std::size_t>& pack_of, Packs& packs) const {
    const auto count = static_cast<std::int64_t>(begin_[i + 1] - begin_[i]);
    std::int64_t first = 0;
    while (first < count && pack_of[begin_[i] + static_cast<std::size_t>(first)] < k) ++first;
    std::int64_t last = first;
    while (last < count && pack_of[begin_[i] + static_cast<std::size_t>(last)] == k) ++last;
    if (first == last) return false;
    packs.add(slice(i, taken_behind(i, first, count), taken_behind(i, last, count)));
    return true;
  }

  MilpModel model_;
  std::vector<StreamSample> samples_;
  std::size_t packs_;
  Pass pass_;
  SliceBoundaryOptions options_;
  std::vector<std::size_t> begin_;  // [sample] its first part, and the end of all
  std::vector<double> cost_;        // [part]
  double bound_ = 0.0;
  double scale_ = 1.0;
};

}  // namespace slimpack
