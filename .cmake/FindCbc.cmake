# CBC and the COIN-OR libraries below it, as Debian's coinor-libcbc-dev brings them: without a package file.
# Defines the target Cbc::Cbc.
find_path(Cbc_INCLUDE_DIR coin/CbcModel.hpp)
mark_as_advanced(Cbc_INCLUDE_DIR)

set(required Cbc_INCLUDE_DIR)
set(libraries "")
foreach(library IN ITEMS CbcSolver Cbc Cgl OsiClp Clp Osi CoinUtils)
  find_library(Cbc_${library}_LIBRARY ${library})
  mark_as_advanced(Cbc_${library}_LIBRARY)
  list(APPEND required Cbc_${library}_LIBRARY)
  list(APPEND libraries "${Cbc_${library}_LIBRARY}")
endforeach()

if(Cbc_INCLUDE_DIR)
  file(STRINGS "${Cbc_INCLUDE_DIR}/coin/CbcConfig.h" Cbc_VERSION REGEX "define CBC_VERSION ")
  string(REGEX REPLACE ".*\"([0-9.]+)\".*" "\\1" Cbc_VERSION "${Cbc_VERSION}")
endif()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(Cbc REQUIRED_VARS ${required} VERSION_VAR Cbc_VERSION)

if(Cbc_FOUND AND NOT TARGET Cbc::Cbc)
  add_library(Cbc::Cbc INTERFACE IMPORTED GLOBAL)
  target_include_directories(Cbc::Cbc INTERFACE "${Cbc_INCLUDE_DIR}")
  target_link_libraries(Cbc::Cbc INTERFACE ${libraries})
endif()
