#pragma once

namespace railyard {

/// Version of the core's interface towards Python; the Python side refuses a module of another one.
inline constexpr int kInterfaceVersion = 1;

int interface_version();

}  // namespace railyard
