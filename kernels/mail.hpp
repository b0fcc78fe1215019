#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <deque>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "kernels/arrivals.hpp"
#include "kernels/transport/transport.hpp"

namespace slimpack::kernels {

/// Rows on their way to or from another rank, by a transport of the host. What a back end still computes, or copies to the
/// host, is handed to the transport once it is there; nobody waits for it before there is nothing else to do. All memory is
/// taken before a step's first task.
/// @tparam Port a RowPort of numbers of this type
template <class Number, class Port, Transport T>
class Mail {
 public:
  /// Both have to outlive it.
  Mail(T& transport, Port& port) : transport_(transport), port_(port) {}
  Mail(Mail&&) = delete;
  Mail& operator=(Mail&&) = delete;
  ~Mail() {
    try {
      port_.wait_all();  // or memory would go that rows are copied to
    } catch (...) {      // a destructor has nobody to tell
    }
  }

  /// Takes the memory of a step's rows: for those that go, as much as may be under way at a time by the plan
  /// (`departures_of`); for those that come, a piece for each receive that is posted ahead, and for those that the back
  /// end may not have read yet.
  /// @param window receives that are posted and not used, at most.
  void begin_step(const Plan& plan, const StageProgram& program, std::size_t hidden, std::size_t window) {
    const auto& order = plan.pipelines[program.pipeline()].order;
    const std::size_t stage = program.stage();
    by_tag_.clear();
    lay_out(0, Pass::forward,
            program.last() ? Arrivals{} : departures_of(program, order[stage + 1], Pass::forward), hidden);
    lay_out(1, Pass::backward,
            program.first() ? Arrivals{} : departures_of(program, order[stage - 1], Pass::backward), hidden);
    std::vector<std::size_t> sizes;
    for (const StageTask& task : program.tasks()) {
      if (task.pass == Pass::weight || (task.pass == Pass::forward ? program.first() : program.last()))
        continue;
      if (task.rows > 0) sizes.push_back(static_cast<std::size_t>(task.rows) * hidden);
    }
    places_ = std::min(sizes.size(), window + 1 + Port::behind);  // one is in use
    if (in_.size() < places_) in_.resize(places_);
    for (std::size_t i = 0; i < places_; ++i) {
      std::size_t most = 0;
      for (std::size_t k = i; k < sizes.size(); k += places_) most = std::max(most, sizes[k]);
      grow(in_[i].numbers, most);
      in_[i].is_read = false;
    }
    posted_ = received_ = 0;
  }

  /// Of the host's memory, that rows on their way take.
  [[nodiscard]] std::size_t bytes() const {
    std::size_t numbers = 0;
    for (const In& in : in_) numbers += in.numbers.size();
    for (const auto& way : out_) {
      for (const Out& out : way) numbers += out.numbers.size();
    }
    return numbers * sizeof(Number);
  }

  void post(std::size_t from, Tag tag, std::size_t numbers) {
    In& in = in_[posted_++ % places_];
    if (in.is_read) wait_for(in);
    in.size = numbers;
    in.request = transport_.irecv(from, tag, std::as_writable_bytes(in.span()));
    hand_over();
  }

  /// Numbers of the oldest posted receive, in the host's memory, valid until the next call and what the back end was asked
  /// for until then is done.
  std::span<const Number> receive() {
    if (received_ > 0) {
      In& last = in_[(received_ - 1) % places_];
      last.mark = port_.mark();
      last.is_read = true;
      last.order = ++marks_;
    }
    In& in = in_[received_++ % places_];
    flush();
    transport_.wait(in.request);
    return in.span();
  }

  /// The back end has been given the next of its tasks.
  void finished() {}

  /// @param rows that a task of the back end has returned.
  void send(std::size_t to, Tag tag, std::span<const Number> rows) {
    const auto [way, place] = by_tag_.at(tag);
    Out& out = out_[way][place];
    if (out.is_under_way) transport_.wait(out.request);  // it has been received, by the plan
    out.is_under_way = false;
    ready_.push_back({&out, rows.size(), to, tag, {}, 0});
    port_.fetch(rows, ready_.back().span());
    ready_.back().mark = port_.mark();
    ready_.back().order = ++marks_;
    hand_over();
  }

  /// Hands all rows over, waiting for the back end. Call it before this rank waits for another one in any other way: that
  /// one may wait for these rows.
  void flush() {
    while (!ready_.empty()) {
      port_.wait(ready_.front().mark);
      hand_over_first();
    }
  }

  void wait_for_sends() {
    flush();
    for (auto& way : out_) {
      for (Out& out : way) {
        if (out.is_under_way) transport_.wait(out.request);
        out.is_under_way = false;
      }
    }
  }

 private:
  using Buffer = typename Port::Buffer;
  using Mark = typename Port::Mark;

  struct In {
    Buffer numbers{};
    std::size_t size = 0;
    Request request;
    bool is_read = false;  ///< the back end has been given all that reads it: up to the mark
    Mark mark{};
    std::size_t order = 0;  ///< of the mark

    [[nodiscard]] std::span<Number> span() { return {numbers.data(), size}; }
  };
  struct Out {
    Buffer numbers{};
    Request request;
    bool is_under_way = false;
  };
  /// Rows that the back end has been asked for.
  struct Letter {
    Out* out = nullptr;
    std::size_t size = 0, to = 0;
    Tag tag = 0;
    Mark mark{};
    std::size_t order = 0;  ///< of the mark

    [[nodiscard]] std::span<Number> span() { return {out->numbers.data(), size}; }
  };

  void grow(Buffer& buffer, std::size_t numbers) {
    if (buffer.size() >= numbers) return;
    buffer = Buffer{};  // or both would be there
    buffer = port_.buffer(numbers);
  }

  void lay_out(std::size_t way, Pass pass, const Arrivals& departures, std::size_t hidden) {
    auto& places = out_[way];
    if (places.size() < departures.places.size()) places.resize(departures.places.size());
    for (std::size_t i = 0; i < departures.places.size(); ++i)
      grow(places[i].numbers, static_cast<std::size_t>(departures.places[i]) * hidden);
    for (const Arrival& rows : departures.all) by_tag_[message_tag(pass, rows.pack)] = {way, rows.place};
  }

  /// Of rows that have reached the host, without waiting.
  void hand_over() {
    while (!ready_.empty() && port_.reached(ready_.front().mark)) hand_over_first();
  }
  void hand_over_first() {
    Letter& letter = ready_.front();
    letter.out->request = transport_.isend(letter.to, letter.tag, std::as_bytes(letter.span()));
    letter.out->is_under_way = true;
    ready_.pop_front();
  }

  /// Until the back end has read rows, handing over what it has made until then: another rank may wait for it.
  void wait_for(In& in) {
    while (!ready_.empty() && ready_.front().order < in.order) {
      port_.wait(ready_.front().mark);
      hand_over_first();
    }
    port_.wait(in.mark);
    in.mark = {};
    in.is_read = false;
  }

  T& transport_;
  Port& port_;
  std::vector<In> in_;  ///< in turn
  std::size_t places_ = 0, posted_ = 0, received_ = 0;
  std::array<std::vector<Out>, 2> out_;                        ///< to the next stage, and to the one before
  std::map<Tag, std::pair<std::size_t, std::size_t>> by_tag_;  ///< way and place
  std::deque<Letter> ready_;
  std::size_t marks_ = 0;
};

}  // namespace slimpack::kernels
