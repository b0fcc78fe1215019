#pragma once

// Plan files: `to_json` and `write_json`, `read_json`.
#include "slimpack/plan/json_read.hpp"
#include "slimpack/plan/json_write.hpp"
