/// The actors around an HTTP bridge in a test: each does what its fake_node says, and writes down what it was asked.
#pragma once

#include "actors/interfaces.hpp"
#include "tests/actors/http/fake_node.hpp"

#include <cstddef>

namespace kcx::test {

database_actor::behavior_type fake_database(database_actor::pointer self, fake_node* node);
reader_actor::behavior_type fake_reader(reader_actor::pointer self, fake_node* node, std::size_t number);
/// Each claim and report waits until a job is ready: then it gets that job, and its ends have gone well.
dispatcher_actor::behavior_type fake_dispatcher(dispatcher_actor::pointer self, fake_node* node);
log_hub_actor::behavior_type fake_hub(log_hub_actor::pointer, fake_node* node);
worker_supervisor_actor::behavior_type fake_workers(worker_supervisor_actor::pointer self, fake_node* node);
root_supervisor_actor::behavior_type fake_root(root_supervisor_actor::pointer, fake_node* node);

} // namespace kcx::test
