#include "apps/get/retries.h"

#include <gtest/gtest.h>

#include "dtn/core/check.h"

namespace dtn::app {
namespace {

HttpResult answer(int status) {
  HttpResult result;
  result.head.status = status;
  return result;
}

TEST(Retries, RepeatWhatIsTemporary) {
  for (int status : {408, 429, 500, 502, 503, 504}) EXPECT_TRUE(is_temporary(answer(status)));
  for (int status : {200, 400, 401, 403, 404, 410, 501}) EXPECT_FALSE(is_temporary(answer(status)));
  HttpResult broken;
  broken.end = HttpEnd::kBroken;
  EXPECT_TRUE(is_temporary(broken));
  broken.end = HttpEnd::kFailed;
  EXPECT_FALSE(is_temporary(broken));
}

TEST(Retries, WaitTwiceAsLongEachTime) {
  const RetryOptions options{.first_wait = 1, .max_wait = 60};
  EXPECT_EQ(wait_before(0, answer(503), options), 1);
  EXPECT_EQ(wait_before(1, answer(503), options), 2);
  EXPECT_EQ(wait_before(4, answer(503), options), 16);
  EXPECT_EQ(wait_before(20, answer(503), options), 60);
  HttpResult busy = answer(429);
  busy.wait_for = 7;
  EXPECT_EQ(wait_before(0, busy, options), 7);
  EXPECT_EQ(wait_before(4, busy, options), 16);
}

TEST(Retries, EndWithTheirNumber) {
  Retries retries("model.safetensors", {.retries = 2, .first_wait = 0});
  retries.wait(answer(503), "");
  retries.wait(answer(503), "");
  EXPECT_THROW(retries.wait(answer(503), ""), Error);
  retries.reset();
  retries.wait(answer(503), "");
}

TEST(Retries, DoNotWaitForAnHour) {
  Retries retries("model.safetensors", {.first_wait = 0});
  HttpResult busy = answer(429);
  busy.wait_for = 3600;
  EXPECT_THROW(retries.wait(busy, ""), Error);
}

}  // namespace
}  // namespace dtn::app
