#include "kernels/profile.hpp"

#include <time.h>

#include <chrono>
#include <ctime>
#include <functional>
#include <string>

#include "kernels/math/adamw.hpp"
#include "kernels/math/cross_entropy.hpp"
#include "kernels/math/rms_norm.hpp"
#include "kernels/math/swiglu.hpp"
#include "kernels/profile_transfer.hpp"
#include "slimpack/cost/profile_fit.hpp"

namespace slimpack::kernels {

namespace {

/// Median seconds of some calls, after one for warming up.
double median_seconds(ProfileClock clock, const std::function<void()>& call) {
  constexpr std::size_t calls = 9;
  std::vector<double> seconds;
  call();
  for (std::size_t i = 0; i < calls; ++i) {
    const double begin = seconds_now(clock);
    call();
    seconds.push_back(seconds_now(clock) - begin);
  }
  std::nth_element(seconds.begin(), seconds.begin() + calls / 2, seconds.end());
  return seconds[calls / 2];
}

template <class Real>
Matrix<Real> numbers(std::size_t rows, std::size_t cols) {
  Matrix<Real> m(rows, cols);
  std::mt19937_64 random(rows + cols);
  std::uniform_real_distribution<double> number(-1.0, 1.0);
  for (std::size_t i = 0; i < rows * cols; ++i) m.data()[i] = static_cast<Real>(number(random));
  return m;
}

}  // namespace

double seconds_now(ProfileClock clock) {
  if (clock == ProfileClock::wall) {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
  }
#ifdef CLOCK_THREAD_CPUTIME_ID
  timespec time{};
  if (clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time) == 0) {
    return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
  }
#endif
  throw InvalidInput("this system has no clock of a thread's processor time; expected the wall's clock");
}

std::string utc_date() {
  const std::time_t now = std::time(nullptr);
  std::tm day{};
  char text[16];
  if (gmtime_r(&now, &day) == nullptr || std::strftime(text, sizeof text, "%Y-%m-%d", &day) == 0) return {};
  return text;
}

template <class Real>
void measure_operators(const Transformer& model, Tokens tokens, ProfileClock clock, Profile& profile) {
  const auto rows = static_cast<std::size_t>(tokens), hidden = static_cast<std::size_t>(model.hidden),
             ffn = static_cast<std::size_t>(model.ffn), vocab = static_cast<std::size_t>(model.vocab);
  constexpr double epsilon = 1e-5;
  profile.operators.clear();
  const auto measure = [&](const char* name, std::size_t width, const std::function<void()>& call) {
    profile.operators.push_back({name, median_seconds(clock, call) / static_cast<double>(rows * width)});
  };
  const Matrix<Real> x = numbers<Real>(rows, hidden), gate_up = numbers<Real>(rows, 2 * ffn);
  Matrix<Real> y(rows, hidden), act(rows, ffn), dgate_up(rows, 2 * ffn), dx = numbers<Real>(rows, hidden);
  std::vector<Real> weight(hidden, Real{1}), dweight(hidden);
  measure("rms_norm", hidden, [&] { rms_norm<Real>(x.view(), weight, epsilon, y.view()); });
  measure("rms_norm_backward", hidden,
          [&] { rms_norm_backward<Real>(x.view(), weight, epsilon, y.view(), dx.view(), dweight); });
  measure("swiglu", 2 * ffn, [&] { swiglu<Real>(gate_up.view(), act.view()); });
  measure("swiglu_backward", 2 * ffn,
          [&] { swiglu_backward<Real>(gate_up.view(), act.view(), dgate_up.view()); });

  const std::vector<std::int32_t> labels(rows, 0);
  const Matrix<Real> logits = numbers<Real>(rows, vocab);
  double sum = 0.0;
  measure("cross_entropy", vocab, [&] { sum += cross_entropy<Real>(logits.view(), labels); });
  require(sum > 0.0, "the loss of random logits is ", sum, "; expected a positive number");

  const auto parameters = static_cast<std::size_t>(layer_parameters(model));
  std::vector<Real> weights(parameters), gradients(parameters, Real{1}), first(parameters),
      second(parameters);
  profile.optimiser_seconds_per_parameter =
      median_seconds(clock, [&] { adamw<Real>(weights, gradients, first, second, 1); }) /
      static_cast<double>(parameters);
}

template void measure_operators<float>(const Transformer&, Tokens, ProfileClock, Profile&);
template void measure_operators<double>(const Transformer&, Tokens, ProfileClock, Profile&);

void fit_back_end(const BackEndTimes& times, Profile& profile) {
  fit_tasks(times.fitted, profile);
  profile.held_out = prediction_error(profile, times.held_out);
}

Link fit_link(std::span<const TransferTime> times) {
  Eigen::MatrixXd matrix(static_cast<Eigen::Index>(times.size()), 2);
  double least = 0.0, most = 0.0;
  for (std::size_t i = 0; i < times.size(); ++i) {
    require(times[i].seconds > 0.0, "transfer ", i, " took ", times[i].seconds,
            " seconds; expected a positive number");
    matrix(static_cast<Eigen::Index>(i), 0) = 1.0 / times[i].seconds;
    matrix(static_cast<Eigen::Index>(i), 1) = times[i].bytes / times[i].seconds;
    least = i == 0 ? times[i].bytes : std::min(least, times[i].bytes);
    most = std::max(most, times[i].bytes);
  }
  require(least < most, "there are transfers of one size only; expected at least two sizes");
  const Eigen::VectorXd x = slimpack::detail::nonnegative_least_squares(
      std::move(matrix), Eigen::VectorXd::Ones(static_cast<Eigen::Index>(times.size())));
  require(x(1) > 0.0, "larger transfers take no longer than small ones; expected larger sizes");
  return {.bandwidth = 1.0 / x(1), .latency = x(0)};
}

}  // namespace slimpack::kernels
