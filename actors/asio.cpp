// The one translation unit that compiles Asio's and Beast's non-template parts; everybody else only declares them
// (BOOST_ASIO_SEPARATE_COMPILATION), which takes several seconds off every file that uses them.
#include <boost/asio/impl/src.hpp>
#include <boost/asio/ssl/impl/src.hpp>
#include <boost/beast/src.hpp>
