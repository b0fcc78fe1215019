#include "slimpack/core/json_input.hpp"

#include <catch2/catch.hpp>
#include <sstream>
#include <string>

#include "slimpack/core/error.hpp"

using slimpack::detail::JsonInput;

namespace {

std::string all_of(JsonInput& input) {
  std::string out;
  for (auto at = input.begin(); !(at == JsonInput::end()); ++at) out += *at;
  return out;
}

}  // namespace

TEST_CASE("runs of blanks between tokens are handed out as one, those in strings as they are") {
  const std::string text = " \n\t {\"a  b\\\"  \" :\r\n  1 }  ";
  const std::string expected = " {\"a  b\\\"  \" : 1 } ";
  JsonInput whole("text", text);
  CHECK(all_of(whole) == expected);
  std::istringstream stream(text);
  JsonInput piecewise("text", stream);
  CHECK(all_of(piecewise) == expected);
  JsonInput nothing("text", "");
  CHECK(all_of(nothing).empty());
}

TEST_CASE("blocks of a stream are read one after another, and places count from its beginning") {
  const std::string lines(100000, '\n'), numbers(100000, '1');
  std::istringstream stream(lines + numbers);
  JsonInput input("text", stream);
  CHECK(all_of(input) == " " + numbers);
  CHECK_THROWS_WITH(input.fail("over"),
                    Catch::Contains("line 100001, column 100000") && Catch::Contains("over"));
}

TEST_CASE("a null character outside of strings is refused with its place") {
  JsonInput input("text", std::string_view("[1,\n2\0]", 7));
  CHECK_THROWS_WITH(all_of(input), Catch::Contains("the text is not JSON: line 2, column 2") &&
                                       Catch::Contains("null character"));
}
