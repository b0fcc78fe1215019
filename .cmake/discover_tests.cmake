# Lists the test cases of BINARY and writes an add_test for each to LIST. A case is called
# "PREFIX: name"; its tags `slow` and `threads` become ctest labels. Slow ones start first. The tests run in DIRECTORY.
cmake_minimum_required(VERSION 3.25)

# A bracket or a semicolon in a name would change how CMake splits a list: control characters stand in.
string(ASCII 1 open)
string(ASCII 2 close)
string(ASCII 3 semicolon)

# Catch2 v2 gives the number of cases as its exit status; anything but a number is a crash.
function(list_cases result)
  execute_process(COMMAND "${BINARY}" --list-test-names-only ${ARGN}
    WORKING_DIRECTORY "${DIRECTORY}" OUTPUT_VARIABLE output RESULT_VARIABLE status)
  if(NOT status MATCHES "^[0-9]+$")
    message(FATAL_ERROR "${BINARY} could not list its tests: ${status}\n${output}")
  endif()
  string(REGEX REPLACE "\n+$" "" output "${output}")
  string(REPLACE "[" "${open}" output "${output}")
  string(REPLACE "]" "${close}" output "${output}")
  string(REPLACE ";" "${semicolon}" output "${output}")
  string(REPLACE "\n" ";" output "${output}")
  set(${result} "${output}" PARENT_SCOPE)
endfunction()

list_cases(cases)
if(NOT cases)
  message(FATAL_ERROR "${BINARY} has no test case")
endif()
list_cases(slow "[slow]")
list_cases(threads "[threads]")

set(script "")
foreach(case IN LISTS cases)
  set(labels "${PREFIX}")
  set(cost 0)
  foreach(label IN ITEMS slow threads)
    if("${case}" IN_LIST ${label})
      list(APPEND labels ${label})
    endif()
  endforeach()
  if("slow" IN_LIST labels)
    set(cost 100)
  endif()
  string(REPLACE "${open}" "[" case "${case}")
  string(REPLACE "${close}" "]" case "${case}")
  string(REPLACE "${semicolon}" ";" case "${case}")
  string(REGEX REPLACE "([][,\\])" "\\\\\\1" pattern "${case}")  # these mean something to Catch2
  set(name "[==[${PREFIX}: ${case}]==]")
  string(APPEND script
    "add_test(${name} [==[${BINARY}]==] [==[${pattern}]==] --warn NoTests)\n"
    "set_tests_properties(${name} PROPERTIES LABELS [==[${labels}]==] COST ${cost} WORKING_DIRECTORY [==[${DIRECTORY}]==])\n")
endforeach()
file(WRITE "${LIST}" "${script}")
