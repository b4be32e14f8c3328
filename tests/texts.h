// Checks of texts, and of the messages of errors.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace dtn::test {

inline void expect_contains(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << "wanted: " << part << "\ngot:    " << text;
}

// Expects `f` to throw an E whose message contains all of `parts`.
template <class E, class F>
void expect_error(F&& f, const std::vector<std::string>& parts) {
  try {
    f();
  } catch (const E& e) {
    for (const std::string& part : parts) {
      EXPECT_NE(std::string(e.what()).find(part), std::string::npos)
          << "no '" << part << "' in: " << e.what();
    }
    return;
  }
  ADD_FAILURE() << "nothing thrown";
}

}  // namespace dtn::test
