#pragma once

#include <span>
#include <string>

#include "slimpack/cost/measured_task.hpp"
#include "slimpack/cost/profile.hpp"
#include "slimpack/model/device.hpp"

namespace slimpack::command {

/// The device on which a profile was measured, as `device_of` has it. What the profile doesn't know comes from a preset:
/// the one that the GPU's name has, with the vendor's peak, else h100; of a CPU, cpu.
Device device_of_profile(const Profile& profile);

/// Whether `--device` is given a profile's file, not a preset's name.
bool names_profile(const std::string& device);

/// The preset of this name, or where it ends with .json, the device of that profile. @throws InvalidInput if there is
/// none, or it can't be read.
Device device_named(const std::string& name);

/// How far the calibrated model with a device's constants is from measured tasks. @param profile says the model and
/// the size of numbers.
PredictionError constants_error(const Profile& profile, const Device& device,
                                std::span<const MeasuredTask> tasks);

/// Titles of a table of devices, and a device's row, each with the end of its line.
std::string device_titles();
std::string device_row(const Device& device);

/// A line that says whose attention was measured on a GPU; nothing for a CPU, which has one alone.
std::string measured_attention(const Profile& profile);

/// Options of `plan` and `compare` that set what a profile knows of its device.
std::string device_options(const Profile& profile, const Device& device);

}  // namespace slimpack::command
