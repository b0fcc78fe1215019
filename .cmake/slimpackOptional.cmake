# The optional parts of slimpack. The project's own build and the installed package both read this file,
# so a component exists wherever its dependency does, whatever was there when slimpack was installed.

set(slimpack_components json eigen boost glpk cbc highs)

set(slimpack_json_package nlohmann_json 3.11 CONFIG)
set(slimpack_json_target nlohmann_json::nlohmann_json)

set(slimpack_eigen_package Eigen3 3.4 CONFIG)
set(slimpack_eigen_target Eigen3::Eigen)

set(slimpack_boost_package Boost 1.74 CONFIG)
set(slimpack_boost_target Boost::headers)

set(slimpack_glpk_package GLPK 4.65 MODULE)
set(slimpack_glpk_target GLPK::GLPK)

set(slimpack_cbc_package Cbc 2.10 MODULE)
set(slimpack_cbc_target Cbc::Cbc)

set(slimpack_highs_package highs 1.7 CONFIG)
set(slimpack_highs_target highs::highs)

# Creates slimpack::<component> if its dependency can be found; further arguments go to find_package.
function(slimpack_optional component)
  if(TARGET slimpack::${component})
    return()
  endif()
  # Whoever adds slimpack as a subdirectory links the component from outside of this directory.
  set(CMAKE_FIND_PACKAGE_TARGETS_GLOBAL ON)
  if(NOT TARGET ${slimpack_${component}_target})
    list(PREPEND CMAKE_MODULE_PATH "${CMAKE_CURRENT_FUNCTION_LIST_DIR}")  # for what Find<package>.cmake stands here
    find_package(${slimpack_${component}_package} ${ARGN})
  endif()
  if(TARGET ${slimpack_${component}_target})
    add_library(slimpack::${component} INTERFACE IMPORTED GLOBAL)
    target_link_libraries(slimpack::${component}
      INTERFACE slimpack::slimpack ${slimpack_${component}_target})
  endif()
endfunction()
