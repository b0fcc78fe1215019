#pragma once

#include <cstddef>
#include <vector>

#include "kernels/math/attention.hpp"
#include "kernels/math/matrix.hpp"
#include "kernels/model/pool.hpp"
#include "kernels/model/stage_options.hpp"
#include "kernels/model/weights.hpp"
#include "slimpack/exec/program.hpp"

namespace slimpack::kernels {

/// Keys and values of a stage, and their gradients, addressed by sample and token. What this member holds of a
/// sample is cut into pages, each with all layers, where either pass cuts the sample. A page is taken with its
/// first token and goes with its last, so that memory follows the tokens exactly, but for cuts that stand so
/// close to another that a page of its own would be too small for a product.
template <class Real>
class KeyValueStore {
 public:
  /// @param page_tokens most of a page; more mean fewer, larger products in attention. An eighth of it is the
  /// least between cuts. @param memory has to outlive the store. @throws InvalidInput if page_tokens is 0.
  KeyValueStore(const StagePart& part, std::size_t page_tokens, BufferPool<Real>& memory);

  KeyValueStore(KeyValueStore&&) = delete;
  KeyValueStore& operator=(KeyValueStore&&) = delete;
  ~KeyValueStore() { clear(); }

  /// Prepares a step; frees what is left of the one before. O(samples + n log n) in the stage's slices.
  /// @param merged how members share the attention of packs for which the plan says nothing. Of samples that they
  /// share by heads, all tokens of this member's heads are held, of others its tokens of all heads. The program
  /// keeps `require_shared_attention`, and has to outlive the step.
  void begin_step(const StageProgram& program, MergedAttention merged);

  /// Takes memory for the keys and values of what this member holds of a range.
  /// @throws InvalidInput if that exceeds the limit.
  void allocate(const Slice& range);

  /// Takes memory for gradients of all tokens of the sample below `end`, and sets them to zero where they
  /// were not there. @throws InvalidInput if that exceeds the limit.
  void allocate_gradients(SampleId sample, Tokens end);

  /// Copies in keys and values of a range that this member holds. @param k, v [tokens x width]
  void write(std::size_t layer, const Slice& owned, const MatrixView<const Real>& k,
             const MatrixView<const Real>& v);

  /// Appends the pages that hold tokens of the sample below `end`, and what follows in the last of them: causal
  /// attention reads nothing of those rows.
  void pieces(std::size_t layer, SampleId sample, Tokens end, std::vector<KeyValuePiece<Real>>& out) const;

  /// Appends the gradients of the same pages.
  void gradients(std::size_t layer, SampleId sample, Tokens end,
                 std::vector<typename Attention<Real>::PieceGradients>& out);

  /// Copies out the gradients of a range that this member holds. @param dk, dv [tokens x width]
  void read_gradients(std::size_t layer, const Slice& owned, const MatrixView<Real>& dk,
                      const MatrixView<Real>& dv) const;

  /// Numbers of a token's key in a layer: all heads' or, of a sample held by heads, this member's.
  [[nodiscard]] std::size_t width(SampleId sample) const { return samples_[sample].width; }

  /// Of a sample's tokens, those that this member holds below `end`.
  [[nodiscard]] std::size_t local(SampleId sample, Tokens end) const {
    return local(sample, end, samples_[sample].member);
  }

  /// The same of any member that runs the sample.
  [[nodiscard]] std::size_t local(SampleId sample, Tokens end, std::size_t member) const {
    if (samples_[sample].whole) return static_cast<std::size_t>(end);
    return static_cast<std::size_t>(owners_->owned_tokens({sample, 0, end}, member));
  }

  /// Gives up a range of the sample's tokens; pages of which no token is left are freed.
  void release(const Slice& range);

  /// Frees all.
  void clear();

 private:
  struct Page {
    Buffer<Real> numbers, gradients;  ///< [layer][k, v][row][width]
    std::vector<Positions> positions;
    std::size_t width = 0;
    std::size_t first = 0;  ///< row of the sample
    std::size_t rows = 0;
    std::size_t left = 0;  ///< rows not given up yet
  };

  struct Sample {
    bool whole = true;       ///< this member holds all tokens
    std::size_t member = 0;  ///< which of those that share the tokens it is
    std::size_t width = 0;
    std::vector<Page> pages;
  };

  void describe(const StageTask& task, const Slice& slice, bool by_heads);
  void cut(SampleId sample, std::vector<std::size_t>& at);
  void open(Page& page, SampleId sample);
  void free(Page& page);
  /// The page of a row, which it has.
  [[nodiscard]] static std::size_t page_of(const std::vector<Page>& pages, std::size_t row);
  [[nodiscard]] std::size_t numbers(const Page& page) const { return layers_ * 2 * page.rows * page.width; }
  /// Rows of a layer's keys (0) or values (1) in a page's buffer.
  [[nodiscard]] MatrixView<Real> rows(const Buffer<Real>& buffer, const Page& page, std::size_t layer,
                                      std::size_t which) const {
    return {buffer.data.get() + (2 * layer + which) * page.rows * page.width, page.rows, page.width};
  }
  /// Calls f(page, row in the page, row in the range, rows) for each page of a range.
  template <class F>
  void for_each_page(const Slice& owned, F&& f) const;

  std::size_t layers_;
  HeadShape heads_;
  std::size_t page_tokens_;
  BufferPool<Real>& memory_;
  const SampleOwners* owners_ = nullptr;
  const Plan* plan_ = nullptr;
  std::vector<Sample> samples_;
};

}  // namespace slimpack::kernels
