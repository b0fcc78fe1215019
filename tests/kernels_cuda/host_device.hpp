#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <exception>
#include <functional>
#include <limits>
#include <memory>
#include <random>
#include <set>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <tuple>
#include <type_traits>
#include <typeindex>
#include <utility>
#include <vector>

#include "kernels/cuda/attention_work.hpp"
#include "kernels/cuda/device.hpp"
#include "kernels/cuda/runtime.hpp"
#include "kernels/cuda/stage_device.hpp"
#include "kernels/math/aligned.hpp"
#include "tests/kernels_cuda_device/fibers.hpp"
#include "tests/kernels_cuda_device/host_group.hpp"
#include "tests/kernels_cuda_device/host_product.hpp"

// A device for stages that is no GPU: it runs the very same kernels on the host, products by plain loops.
namespace slimpack::testing {

/// What queues are given is done at any time up to when the host waits for it, in any order that their events
/// allow: a random one, so that a missing event, or memory that is used again too early, gives wrong numbers.
/// Memory begins as no numbers.
class HostDevice {
 public:
  static constexpr std::size_t product_workspace = 4096;

  /// Memory at a multiple of `arena_alignment`.
  class Memory {
   public:
    Memory() = default;
    explicit Memory(std::size_t bytes)
        : data_(bytes + kernels::cuda::arena_alignment, std::byte{0xff}), size_(bytes) {}

    [[nodiscard]] std::span<std::byte> bytes() const {
      if (size_ == 0) return {};
      auto* data = const_cast<std::byte*>(data_.data());
      const auto at = reinterpret_cast<std::uintptr_t>(data) % kernels::cuda::arena_alignment;
      return {data + (kernels::cuda::arena_alignment - at), size_};
    }

   private:
    std::vector<std::byte> data_;
    std::size_t size_ = 0;
  };
  using HostMemory = Memory;

  class Event {
   private:
    friend HostDevice;
    struct State {
      int recorded = 0, done = 0;  ///< how often
      std::chrono::steady_clock::time_point time;
    };
    std::shared_ptr<State> state_ = std::make_shared<State>();
  };

  /// Where links between devices give their work.
  struct Stream {
    HostDevice* device = nullptr;
    kernels::cuda::Queue queue{};

    /// @param attempt does the work if it can, and says whether it did: other threads' devices may have to come first.
    void add(std::function<bool()> attempt) const {
      device->forbid_in_capture("links are given work");
      device->queues_[static_cast<std::size_t>(queue)].push_back({{}, nullptr, 0, std::move(attempt)});
    }
  };

  /// Work of the queue `compute` that is done again and again.
  class Graph {
   private:
    friend HostDevice;
    std::shared_ptr<std::vector<std::function<void()>>> work_;
  };

  HostDevice() : random_(next_seed()++), attention_rows_(next_attention_rows()) {
    of_thread().push_back(this);
  }
  HostDevice(const HostDevice&) = delete;
  HostDevice& operator=(const HostDevice&) = delete;
  ~HostDevice() { std::erase(of_thread(), this); }

  /// Lets the thread's devices work while the thread waits for another one: a GPU does that by itself.
  /// @returns whether there was work that could be done.
  static bool go_on() {
    bool worked = false;
    for (HostDevice* device : of_thread()) {
      for (std::size_t some = device->random_() % 20; some > 0; --some) {
        if (!device->run_one()) break;
        worked = true;
      }
    }
    return worked;
  }

  void set_product_workspace(std::span<std::byte>) {}
  /// Tries nothing, but what it may overwrite is gone; in a step that is an error.
  void try_products(std::span<std::byte> scratch) {
    forbid_in_capture("products are tried");
    if (memory_is_fixed()) throw std::logic_error("within a step, products are tried");
    wait_all();
    std::fill(scratch.begin(), scratch.end(), std::byte{0xff});
    ++products_tried();
  }
  [[nodiscard]] Memory memory(std::size_t bytes, std::string_view what) {
    const kernels::cuda::Device device{
        .name = "host", .major = kernels::cuda::least_major, .free_memory = next_free()};
    kernels::cuda::require_capable(device, {.memory = bytes, .what = std::string(what)});
    Memory memory = taken(bytes);
    if (next_free() != unlimited) next_free() -= bytes;
    return memory;
  }
  [[nodiscard]] HostMemory host_memory(std::size_t bytes) { return taken(bytes); }

  [[nodiscard]] std::int32_t attention_rows() const { return attention_rows_; }
  [[nodiscard]] static kernels::cuda::TensorMap tensor_map(
      const kernels::MatrixView<const kernels::cuda::Bf16>& matrix, int rows) {
    return host_tensor_map(matrix, rows);
  }

  template <class Kernel>
  void launch(const Kernel& kernel, const kernels::cuda::Grid& grid) {
    require_known(known_kernels_, std::type_index(typeid(Kernel)), "a kernel is loaded");
    add(kernels::cuda::Queue::compute, [this, kernel, grid] { launcher_(kernel, grid); });
  }

  template <class Out>
  void multiply(kernels::cuda::Product product, const kernels::MatrixView<const kernels::cuda::Bf16>& a,
                const kernels::MatrixView<const kernels::cuda::Bf16>& b, const kernels::MatrixView<Out>& c,
                kernels::Update update) {
    require_known(
        known_products_,
        std::tuple(kernels::cuda::gemm_layout(product, a, b, c), update, std::is_same_v<Out, float>),
        "a product's way is chosen");
    add(kernels::cuda::Queue::compute, [=, this] { product_of(product, a, b, c, update); });
  }

  void copy(kernels::cuda::Queue queue, void* to, const void* from, std::size_t bytes) {
    add(queue, [=] {
      if (bytes > 0) std::memcpy(to, from, bytes);
    });
  }
  void fill(kernels::cuda::Queue queue, std::span<std::byte> bytes, unsigned char value) {
    add(queue, [=] {
      if (!bytes.empty()) std::memset(bytes.data(), value, bytes.size());
    });
  }
  void record(Event& event, kernels::cuda::Queue queue) {
    forbid_in_capture("an event is recorded");
    const int number = ++event.state_->recorded;
    add(queue, [state = event.state_, number] {
      state->done = std::max(state->done, number);
      state->time = std::chrono::steady_clock::now();
    });
  }
  void wait(kernels::cuda::Queue queue, const Event& event) {
    forbid_in_capture("a queue waits for an event from elsewhere");
    add(queue, {}, event.state_, event.state_->recorded);
  }
  [[nodiscard]] bool reached(const Event& event) {
    forbid_in_capture("the host asks for an event");
    for (std::size_t some = random_() % 4; some > 0; --some) {
      if (!run_one()) break;
    }
    return event.state_->done >= event.state_->recorded;
  }
  void wait(const Event& event) {
    wait_until([&] { return event.state_->done >= event.state_->recorded; });
  }
  void wait_all() {
    wait_until([&] {
      return std::all_of(queues_.begin(), queues_.end(), [](const auto& queue) { return queue.empty(); });
    });
  }
  /// As a GPU's stream is captured, with what that forbids: any of it is an error.
  template <class F>
  [[nodiscard]] Graph capture(F&& work) {
    forbid_in_capture("another capture begins");
    Graph graph;
    graph.work_ = std::make_shared<std::vector<std::function<void()>>>();
    const struct Capturing {
      HostDevice& device;
      ~Capturing() { device.captured_ = nullptr; }
    } capturing{*this};
    captured_ = graph.work_.get();
    work();
    return graph;
  }
  void replay(const Graph& graph) {
    if (!graph.work_) throw std::logic_error("a graph is launched that was not captured");
    for (std::size_t i = 0; i < graph.work_->size(); ++i)
      add(kernels::cuda::Queue::compute, [work = graph.work_, i] { (*work)[i](); });
  }
  void set_waiter(kernels::DeviceWaiter waiter) { waiter_ = std::move(waiter); }
  [[nodiscard]] Stream stream(kernels::cuda::Queue queue) { return {this, queue}; }
  [[nodiscard]] static double seconds(const Event& from, const Event& to) {
    return std::chrono::duration<double>(to.state_->time - from.state_->time).count();
  }

  /// What the thread's devices are asked for while this is set is an error: memory, theirs or the host's.
  static bool& memory_is_fixed() {
    thread_local bool fixed = false;
    return fixed;
  }
  /// Waiting of the host for the thread's devices is an error while this is set.
  static bool& host_may_not_wait() {
    thread_local bool forbidden = false;
    return forbidden;
  }
  /// Bytes that the thread's devices have left, until they are given another number; what is freed does not count.
  static std::size_t& next_free() {
    thread_local std::size_t bytes = unlimited;
    return bytes;
  }
  static constexpr std::size_t unlimited = std::numeric_limits<std::size_t>::max();

  /// Pieces of memory that the thread's devices were asked for.
  static std::size_t& pieces_taken() {
    thread_local std::size_t pieces = 0;
    return pieces;
  }
  /// How often the thread's devices might have tried products.
  static std::size_t& products_tried() {
    thread_local std::size_t times = 0;
    return times;
  }
  /// Whether all work that the thread's devices were given is done.
  static bool is_idle() {
    return std::all_of(of_thread().begin(), of_thread().end(), [](const HostDevice* device) {
      return std::all_of(device->queues_.begin(), device->queues_.end(),
                         [](const auto& queue) { return queue.empty(); });
    });
  }
  /// Seed of the next device's order.
  static std::uint32_t& next_seed() {
    thread_local std::uint32_t seed = 1;
    return seed;
  }
  /// Tokens of attention's blocks, of the devices that the thread makes from now on.
  static std::int32_t& next_attention_rows() {
    thread_local std::int32_t rows = kernels::cuda::attention_rows;
    return rows;
  }

 private:
  [[nodiscard]] Memory taken(std::size_t bytes) {
    forbid_in_capture("memory is taken");
    if (memory_is_fixed())
      throw std::logic_error("within a step, " + std::to_string(bytes) + " bytes of memory are taken");
    ++pieces_taken();
    return Memory(bytes);
  }

  struct Work {
    std::function<void()> run;
    std::shared_ptr<const Event::State> waits_for;
    int number = 0;  ///< of that event's records
    std::function<bool()> attempt;
  };

  static std::vector<HostDevice*>& of_thread() {
    thread_local std::vector<HostDevice*> devices;
    return devices;
  }

  void forbid_in_capture(const std::string& what) const {
    if (captured_ != nullptr) throw std::logic_error("while a graph is captured, " + what);
  }
  /// What is used for the first time loads code or makes choices, which a capture may not do.
  template <class T>
  void require_known(std::set<T>& known, const T& used, const std::string& what) {
    if (known.insert(used).second) forbid_in_capture(what);
  }

  template <class Done>
  void wait_until(Done&& done) {
    forbid_in_capture("the host waits");
    if (host_may_not_wait() && std::uncaught_exceptions() == 0)
      throw std::logic_error("within a step's tasks, the host waits for the device");
    const std::function<bool()> go_on = [&] {
      while (!done()) {
        if (run_one()) continue;
        if (!waits_for_others_) throw std::runtime_error("queues wait for an event that nobody records");
        return false;
      }
      return true;
    };
    if (waiter_) return waiter_(go_on);
    while (!go_on()) std::this_thread::yield();
  }

  void add(kernels::cuda::Queue queue, std::function<void()> run,
           std::shared_ptr<const Event::State> waits_for = nullptr, int number = 0) {
    if (captured_ != nullptr) {
      if (queue != kernels::cuda::Queue::compute) forbid_in_capture("another queue is given work");
      captured_->push_back(std::move(run));
      return;
    }
    queues_[static_cast<std::size_t>(queue)].push_back({std::move(run), std::move(waits_for), number, {}});
  }

  /// Does the next work of some queue; false if none can.
  bool run_one() {
    // A queue lags for long: in turns, hardly anything would ever come too early.
    if (random_() % 150 == 0) favourite_ = random_() % queues_.size();
    const std::size_t first = favourite_;
    waits_for_others_ = false;
    for (std::size_t i = 0; i < queues_.size(); ++i) {
      auto& queue = queues_[(first + i) % queues_.size()];
      if (queue.empty()) continue;
      if (queue.front().waits_for && queue.front().waits_for->done < queue.front().number) continue;
      if (queue.front().attempt && !queue.front().attempt()) {
        waits_for_others_ = true;
        continue;
      }
      const Work work = std::move(queue.front());
      queue.pop_front();
      if (work.run) work.run();
      return true;
    }
    return false;
  }

  template <class Out>
  void product_of(kernels::cuda::Product product, const kernels::MatrixView<const kernels::cuda::Bf16>& a,
                  const kernels::MatrixView<const kernels::cuda::Bf16>& b, const kernels::MatrixView<Out>& c,
                  kernels::Update update) {
    using kernels::cuda::Product, kernels::cuda::to_float;
    const bool a_turned = product == Product::transposed_multiply,
               b_turned = product == Product::multiply_transposed;
    const std::size_t depth = a_turned ? a.rows : a.cols;
    right_.resize(depth * c.cols);
    for (std::size_t k = 0; k < depth; ++k) {
      for (std::size_t n = 0; n < c.cols; ++n)
        right_[k * c.cols + n] = to_float(b_turned ? b.row(n)[k] : b.row(k)[n]);
    }
    for (std::size_t m = 0; m < c.rows; ++m) {
      sums_.assign(c.cols, 0.0F);
      for (std::size_t k = 0; k < depth; ++k) {
        const float left = to_float(a_turned ? a.row(k)[m] : a.row(m)[k]);
        add_scaled(left, right_.data() + k * c.cols, sums_.data(), c.cols);
      }
      Out* out = c.row(m);
      for (std::size_t n = 0; n < c.cols; ++n) {
        const float before = update == kernels::Update::add ? number(out[n]) : 0.0F;
        set(out[n], before + sums_[n]);
      }
    }
  }
  static float number(float x) { return x; }
  static float number(kernels::cuda::Bf16 x) { return kernels::cuda::to_float(x); }
  static void set(float& to, float x) { to = x; }
  static void set(kernels::cuda::Bf16& to, float x) { to = kernels::cuda::to_bf16(x); }

  std::mt19937 random_;
  std::int32_t attention_rows_;
  std::size_t favourite_ = 0;
  std::array<std::deque<Work>, kernels::cuda::queue_count> queues_;
  std::vector<std::function<void()>>* captured_ = nullptr;  ///< work, while a graph is captured
  std::set<std::type_index> known_kernels_;
  std::set<std::tuple<kernels::cuda::GemmLayout, kernels::Update, bool>> known_products_;
  bool waits_for_others_ = false;  ///< some queue, when last asked
  kernels::DeviceWaiter waiter_;
  FiberLauncher launcher_;
  std::vector<float> right_, sums_;
};

}  // namespace slimpack::testing
