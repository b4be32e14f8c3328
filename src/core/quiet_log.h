// Silence for work that would say again what is known.
#pragma once

namespace dtn {

// No information is logged while an object lives; warnings and errors are.
class QuietLog {
 public:
  QuietLog();
  ~QuietLog();
  QuietLog(const QuietLog&) = delete;
  QuietLog& operator=(const QuietLog&) = delete;

 private:
  int before_;
};

}  // namespace dtn
