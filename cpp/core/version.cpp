#include "core/version.hpp"

namespace railyard {

int interface_version() { return kInterfaceVersion; }

}  // namespace railyard
