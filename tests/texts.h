// Checks of texts.
#pragma once

#include <gtest/gtest.h>

#include <string>

namespace dtn::test {

inline void expect_contains(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << "wanted: " << part << "\ngot:    " << text;
}

}  // namespace dtn::test
