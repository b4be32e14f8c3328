// A user's program with one additional task; tests/e2e/own_task.sh runs it.
#include "dtn/app/train_main.h"
#include "two_views_task.h"

int main(int argc, char** argv) {
  return dtn::app::train_main(argc, argv, dtn::test::with_two_views());
}
