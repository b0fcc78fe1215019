# GLPK has no package file of its own. Defines the target GLPK::GLPK.
find_path(GLPK_INCLUDE_DIR glpk.h)
find_library(GLPK_LIBRARY glpk)
mark_as_advanced(GLPK_INCLUDE_DIR GLPK_LIBRARY)

if(GLPK_INCLUDE_DIR)
  file(STRINGS "${GLPK_INCLUDE_DIR}/glpk.h" GLPK_VERSION REGEX "define GLP_(MAJOR|MINOR)_VERSION +[0-9]+")
  list(TRANSFORM GLPK_VERSION REPLACE ".*VERSION +([0-9]+).*" "\\1")
  list(JOIN GLPK_VERSION "." GLPK_VERSION)
endif()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(GLPK
  REQUIRED_VARS GLPK_LIBRARY GLPK_INCLUDE_DIR VERSION_VAR GLPK_VERSION)

if(GLPK_FOUND AND NOT TARGET GLPK::GLPK)
  add_library(GLPK::GLPK UNKNOWN IMPORTED GLOBAL)
  set_target_properties(GLPK::GLPK PROPERTIES
    IMPORTED_LOCATION "${GLPK_LIBRARY}" INTERFACE_INCLUDE_DIRECTORIES "${GLPK_INCLUDE_DIR}")
endif()
