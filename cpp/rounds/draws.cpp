#include "rounds/draws.hpp"

#include <algorithm>
#include <array>

namespace railyard::rounds {
namespace {

constexpr double kLow = 0.02425;  // below this probability the tail's rational function is used
constexpr std::array kA{-3.969683028665376e1, 2.209460984245205e2,  -2.759285104469687e2,
                        1.383577518672690e2,  -3.066479806614716e1, 2.506628277459239};
constexpr std::array kB{-5.447609879822406e1, 1.615858368580409e2,  -1.556989798598866e2,
                        6.680131188771972e1,  -1.328068155288572e1, 1.0};
constexpr std::array kC{-7.784894002430293e-3, -3.223964580411365e-1, -2.400758277161838,
                        -2.549732539343734,    4.374664141464968,     2.938163982698783};
constexpr std::array kD{7.784695709041462e-3, 3.224671290700398e-1, 2.445134137142996, 3.754408661907416, 1.0};

template <std::size_t N>
double polynomial(const std::array<double, N>& factors, double x) {
  double sum = 0;
  for (const double factor : factors) sum = sum * x + factor;
  return sum;
}

}  // namespace

double inverse_normal(double p) {
  const double side = std::min(p, 1.0 - p);
  if (side >= kLow) {
    const double middle = p - 0.5, square = middle * middle;
    return polynomial(kA, square) * middle / polynomial(kB, square);
  }
  const double far = std::sqrt(-2.0 * std::log(side));
  const double tail = polynomial(kC, far) / polynomial(kD, far);
  return p < 0.5 ? tail : -tail;
}

}  // namespace railyard::rounds
