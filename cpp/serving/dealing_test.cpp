#include "serving/dealing.hpp"

#include <stdexcept>

#include "core/harness.hpp"

using namespace railyard::serving;

TEST(dealt_goes_to_the_replica_with_the_fewest_of_that_time) {
  // At 2 the first has ended, and goes before the third is dealt; at 3 each has one, and the first in order is taken.
  const std::vector<double> asked{0, 1, 2, 3}, end{2, 9, 9, 9};
  CHECK((dealt(asked, asked, end, 2) == std::vector<std::int64_t>{0, 1, 0, 0}));
}

TEST(dealt_counts_requests_from_when_they_are_there) {
  // The first two are on their way until 5: nobody is seen to be anywhere before.
  const std::vector<double> asked{0, 1, 5, 6}, there{5, 5, 5, 6}, end{9, 9, 9, 9};
  CHECK((dealt(asked, there, end, 2) == std::vector<std::int64_t>{0, 0, 1, 1}));
}

TEST(dealt_refuses_what_does_not_fit) {
  const std::vector<double> one{0}, two{0, 1};
  CHECK_THROWS(std::invalid_argument, "differ in length", dealt(one, two, one, 1));
  CHECK_THROWS(std::invalid_argument, "no replicas", dealt(one, one, one, 0));
}
