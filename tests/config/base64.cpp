#define CAF_SUITE base64
#include "config/base64.hpp"

#include "caf/test/unit_test.hpp"

#include <string>

using namespace kcx;

CAF_TEST(the examples of the standard are met both ways) {
  for (const auto& [bytes, text] : {std::pair{"", ""},
                                    {"f", "Zg=="},
                                    {"fo", "Zm8="},
                                    {"foo", "Zm9v"},
                                    {"foob", "Zm9vYg=="},
                                    {"fooba", "Zm9vYmE="},
                                    {"foobar", "Zm9vYmFy"}}) {
    CAF_CHECK_EQUAL(to_base64(bytes), text);
    CAF_CHECK(from_base64(text) == std::string{bytes});
  }
}

CAF_TEST(every byte survives) {
  std::string all;
  for (int i = 0; i < 256; ++i)
    all += static_cast<char>(i);
  CAF_CHECK(from_base64(to_base64(all)) == all);
}

CAF_TEST(what is no base64 gives nothing) {
  for (const char* text : {"Z", "Zg", "Zg=", "Zg==x", "Zh==", "Z g=", "Zm9v=", "Zm-v"})
    CAF_CHECK(!from_base64(text));
}
