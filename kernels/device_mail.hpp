#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <deque>
#include <functional>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "kernels/arrivals.hpp"
#include "kernels/device_links.hpp"
#include "kernels/transport/transport.hpp"
#include "slimpack/core/error.hpp"

namespace slimpack::kernels {

/// What `Mail` is, for rows that go from device to device: the host queues transfers, and waits for none of
/// them. Receives are queued as early as their memory allows, in the sender's order. Where the back end waits
/// for its device, as it does after a step's last task, links are watched and other ranks' failures heard
/// of, so that every wait ends.
/// @tparam Number of rows. @tparam Weight of gradients and weights. @tparam Port a DevicePort of the back
/// end.
template <class Number, class Weight, DevicePort Port,
          DeviceLinks<typename Port::Stream, Number, Weight> Links>
class DeviceMail {
 public:
  /// @param rank this one's; its neighbours are the ranks before and after it. @param port has to outlive it.
  DeviceMail(HostSide host, const TransportOptions& waits, std::size_t rank, Port& port, Links links)
      : host_(std::move(host)), waits_(waits), rank_(rank), port_(port), links_(std::move(links)) {
    port_.set_waiter([this](const std::function<bool()>& reached) { wait(reached); });
  }
  DeviceMail(DeviceMail&&) = delete;
  DeviceMail& operator=(DeviceMail&&) = delete;
  ~DeviceMail() {
    links_.abort();
    port_.set_waiter({});
    try {
      port_.wait_all();  // or memory would go that is still worked on
    } catch (...) {      // a destructor has nobody to tell
    }
  }

  /// Lays down where a step's rows arrive. Call it while the device has nothing to do.
  /// @throws InvalidInput if the device has not the memory.
  void begin_step(const Plan& plan, const StageProgram& program, std::size_t hidden) {
    const auto& order = plan.pipelines[program.pipeline()].order;
    const std::size_t stage = program.stage();
    hidden_ = hidden;
    tasks_ = 0;
    expected_.clear();
    begin_way(0, program.first() ? Arrivals{} : arrivals_of(program, order[stage - 1], Pass::forward));
    begin_way(1, program.last() ? Arrivals{} : arrivals_of(program, order[stage + 1], Pass::backward));
    std::size_t bytes = 0;
    for (const Inbox& box : boxes_) bytes += bytes_of(box);
    if (memory_.bytes().size() < bytes) {
      memory_ = typename Port::Memory{};  // or both would be there
      memory_ = port_.memory(bytes, concat("stage ", stage, " of pipeline ", program.pipeline(),
                                           " for rows that come from other ranks"));
    }
    std::size_t at = 0;
    for (Inbox& box : boxes_) {
      for (Place& place : box.places) {
        place.rows = reinterpret_cast<Number*>(memory_.bytes().data() + at);
        at += aligned(place.tokens);
      }
    }
  }

  /// The device's memory that arriving rows take.
  [[nodiscard]] std::size_t bytes() const { return memory_.bytes().size(); }

  /// Begins with the step's receives, the device's memory having been taken.
  void start() { queue_receives(); }

  void post(std::size_t, Tag tag, std::size_t) { expected_.push_back(tag); }

  /// Numbers of the oldest posted receive, in the device's memory, valid until `finished`.
  std::span<const Number> receive() {
    const auto [box, index] = by_tag_.at(expected_.front());
    expected_.pop_front();
    const Arrival& arrival = boxes_[box].arrivals[index];
    Place& place = boxes_[box].places[arrival.place];
    port_.bring_behind(place.arrived);
    return {place.rows, static_cast<std::size_t>(arrival.tokens) * hidden_};
  }

  /// The device has been given the next of the stage's tasks.
  void finished() {
    ++tasks_;
    queue_receives();
  }

  /// @param rows that the last task has returned.
  void send(std::size_t to, Tag, std::span<const Number> rows) {
    const Way way = to > rank_ ? Way::to_next : Way::to_before;
    port_.send(way, [&](typename Port::Stream stream) { links_.send(way, rows, stream); });
  }

  /// The device sends by itself: there is nothing that another rank could wait for.
  void flush() {}

  /// Waits until the device has done all that it was given.
  void wait_for_sends() { port_.wait_all(); }

  [[nodiscard]] Links& links() { return links_; }

 private:
  struct Place {
    Number* rows = nullptr;
    std::size_t tokens = 0;
    typename Port::Event arrived;
  };
  /// One of the ways on which rows come.
  struct Inbox {
    Way way = Way::from_before;
    std::vector<Arrival> arrivals;
    std::deque<Place> places;  // with the events of earlier steps
    std::size_t next = 0;      ///< arrival whose receive has not been queued
  };

  [[nodiscard]] std::size_t aligned(std::size_t tokens) const {
    constexpr std::size_t boundary = 256;
    return (tokens * hidden_ * sizeof(Number) + boundary - 1) / boundary * boundary;
  }
  [[nodiscard]] std::size_t bytes_of(const Inbox& box) const {
    std::size_t bytes = 0;
    for (const Place& place : box.places) bytes += aligned(place.tokens);
    return bytes;
  }

  void begin_way(std::size_t box, Arrivals arrivals) {
    Inbox& in = boxes_[box];
    const Pass pass = in.way == Way::from_before ? Pass::forward : Pass::backward;
    if (box == 0) by_tag_.clear();
    in.next = 0;
    in.arrivals = std::move(arrivals.all);
    in.places.resize(std::max(in.places.size(), arrivals.places.size()));
    for (std::size_t i = 0; i < in.places.size(); ++i)
      in.places[i].tokens = i < arrivals.places.size() ? static_cast<std::size_t>(arrivals.places[i]) : 0;
    for (std::size_t i = 0; i < in.arrivals.size(); ++i)
      by_tag_[message_tag(pass, in.arrivals[i].pack)] = {box, i};
  }

  void queue_receives() {
    for (Inbox& box : boxes_) {
      for (; box.next < box.arrivals.size() && box.arrivals[box.next].after <= tasks_; ++box.next) {
        const Arrival& arrival = box.arrivals[box.next];
        Place& place = box.places[arrival.place];
        const std::span<Number> rows(place.rows, static_cast<std::size_t>(arrival.tokens) * hidden_);
        // What was there before has been read when these rows are sent: arrivals_of.
        port_.receive(box.way, place.arrived,
                      [&](typename Port::Stream stream) { links_.receive(box.way, rows, stream); });
      }
    }
  }

  void wait(const std::function<bool()>& reached) {
    const auto ask = [&]() -> AsyncState {
      AsyncState state = links_.state();
      if (!state.error.empty() || !state.done) return state;
      return {.done = reached(), .error = {}};
    };
    wait_for_device(host_, waits_, "work on the device", ask, [this] { links_.abort(); });
  }

  HostSide host_;
  TransportOptions waits_;
  std::size_t rank_;
  Port& port_;
  std::size_t hidden_ = 0;
  std::size_t tasks_ = 0;  ///< of the step that the device has been given
  std::array<Inbox, 2> boxes_{Inbox{Way::from_before, {}, {}, 0}, Inbox{Way::from_next, {}, {}, 0}};
  std::map<Tag, std::pair<std::size_t, std::size_t>> by_tag_;  ///< way and arrival
  std::deque<Tag> expected_;                                   ///< in the order of use
  typename Port::Memory memory_;
  Links links_;
};

}  // namespace slimpack::kernels
