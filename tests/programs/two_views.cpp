// A program of one's own that knows one task more than ours; tests/e2e/own_task.sh runs it.
#include "dtn/app/train_main.h"
#include "two_views_task.h"

int main(int argc, char** argv) {
  return dtn::app::train_main(argc, argv, dtn::test::with_two_views());
}
