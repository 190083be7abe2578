// SPDX-License-Identifier: MIT
#include "comm/monitor.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <random>
#include <sstream>

#include "core/format_error.h"

namespace ebb::comm {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double kBeatSeconds = 0.5, kSilenceSeconds = 5, kConnectSeconds = 3, kStartSeconds = 60;
constexpr std::size_t kMessage = 17;  // a type, and two numbers of 8 bytes

double since(Clock::time_point t) { return std::chrono::duration<double>(Clock::now() - t).count(); }

struct ControlMessage {
  std::uint8_t bytes[kMessage];
  ControlMessage(std::uint8_t what, std::uint64_t number, std::uint64_t idle = 0) {
    bytes[0] = what;
    std::memcpy(bytes + 1, &number, sizeof number);
    std::memcpy(bytes + 9, &idle, sizeof idle);
  }
};

// A message is shorter than any socket's buffer; one that does not fit goes to a peer that no longer reads.
bool send_message(int socket, const ControlMessage& m) {
  return ::send(socket, m.bytes, kMessage, MSG_NOSIGNAL | MSG_DONTWAIT) == static_cast<ssize_t>(kMessage);
}

void set_up(int socket) {
  const int on = 1;
  ::setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  ::fcntl(socket, F_SETFL, ::fcntl(socket, F_GETFL) | O_NONBLOCK);
}

bool wait_for(int socket, short events, double seconds) {
  pollfd p{socket, events, 0};
  return ::poll(&p, 1, static_cast<int>(seconds * 1000)) == 1;
}

// Addresses by which other hosts may reach this one, the loopback first: most worlds are on one host.
std::string own_addresses() {
  std::string all = " 127.0.0.1";
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) return all;
  for (const ifaddrs* a = list; a; a = a->ifa_next) {
    if (!a->ifa_addr || a->ifa_addr->sa_family != AF_INET) continue;
    char text[INET_ADDRSTRLEN];
    ::inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in*>(a->ifa_addr)->sin_addr, text, sizeof text);
    if (std::string(text) != "127.0.0.1") all += " " + std::string(text);
  }
  ::freeifaddrs(list);
  return all;
}

// A connection to rank 0 at this address, which identifies itself by repeating the token; -1 otherwise.
int try_connect(const std::string& address, int port, std::uint64_t token, int rank) {
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(static_cast<std::uint16_t>(port));
  if (::inet_pton(AF_INET, address.c_str(), &to.sin_addr) != 1) return -1;
  const int s = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (s < 0) return -1;
  const bool begun = ::connect(s, reinterpret_cast<const sockaddr*>(&to), sizeof to) == 0 || errno == EINPROGRESS;
  int error = 0;
  socklen_t size = sizeof error;
  std::uint64_t answer[1] = {0};
  const std::uint64_t hello[2] = {token, static_cast<std::uint64_t>(rank)};
  const bool good = begun && wait_for(s, POLLOUT, kConnectSeconds) &&
                    ::getsockopt(s, SOL_SOCKET, SO_ERROR, &error, &size) == 0 && error == 0 &&
                    ::send(s, hello, sizeof hello, MSG_NOSIGNAL) == sizeof hello &&
                    wait_for(s, POLLIN, kConnectSeconds) && ::recv(s, answer, sizeof answer, 0) == sizeof answer &&
                    answer[0] == ~token;
  if (good) return s;
  ::close(s);
  return -1;
}

}  // namespace

struct Monitor::Peer {
  int rank = 0, socket = -1;
  Clock::time_point heard = Clock::now();
  std::uint64_t number = 0;  // progress of its program
  double idle = 0;           // seconds it has been idle
  std::uint8_t part[kMessage];
  std::size_t filled = 0;  // of a message
};

Monitor::Monitor(int rank, std::vector<std::string> hosts, const std::function<std::string(std::string)>& share)
    : rank_(rank), hosts_(std::move(hosts)) {
  if (rank == 0) {
    listen_and_accept(share);
  } else {
    connect_to(share(""));
  }
  require(::pipe2(wake_, O_CLOEXEC | O_NONBLOCK) == 0, Error::Kind::io, "World: no pipe can be made ({})",
          std::strerror(errno));
  thread_ = std::thread([this] { watch(); });
}

Monitor::~Monitor() {
  stop(false);
  for (int end : wake_) ::close(end);
}

void Monitor::listen_and_accept(const std::function<std::string(std::string)>& share) {
  const int listener = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in own{};
  own.sin_family = AF_INET;
  own.sin_addr.s_addr = htonl(INADDR_ANY);
  socklen_t size = sizeof own;
  require(listener >= 0 && ::bind(listener, reinterpret_cast<const sockaddr*>(&own), sizeof own) == 0 &&
              ::listen(listener, 1024) == 0 && ::getsockname(listener, reinterpret_cast<sockaddr*>(&own), &size) == 0,
          Error::Kind::io, "World: rank 0 cannot listen for the other ranks ({})", std::strerror(errno));
  std::random_device random;
  const std::uint64_t token = std::uint64_t{random()} << 32 | random();
  share(fmt::format("{} {}{}", ntohs(own.sin_port), token, own_addresses()));

  const auto start = Clock::now();
  while (peers_.size() + 1 < hosts_.size()) {
    const double left = kStartSeconds - since(start);
    require(left > 0, Error::Kind::io, "World: only {} of {} ranks have reached rank 0 on {} after {} s",
            peers_.size() + 1, hosts_.size(), hosts_[0], kStartSeconds);
    if (!wait_for(listener, POLLIN, left)) continue;
    const int s = ::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
    std::uint64_t hello[2] = {0, 0};
    const std::uint64_t answer = ~token;
    if (s >= 0 && wait_for(s, POLLIN, kConnectSeconds) && ::recv(s, hello, sizeof hello, MSG_WAITALL) == sizeof hello &&
        hello[0] == token && hello[1] < hosts_.size() &&
        ::send(s, &answer, sizeof answer, MSG_NOSIGNAL) == sizeof answer) {
      set_up(s);
      Peer peer;
      peer.rank = static_cast<int>(hello[1]);
      peer.socket = s;
      peers_.push_back(peer);
    } else if (s >= 0) {
      ::close(s);  // not a rank
    }
  }
  ::close(listener);
}

void Monitor::connect_to(const std::string& text) {
  std::istringstream words(text);
  int port = 0;
  std::uint64_t token = 0;
  words >> port >> token;
  Peer peer;
  std::string address, tried;
  while (peer.socket < 0 && words >> address) {
    peer.socket = try_connect(address, port, token, rank_);
    tried += (tried.empty() ? "" : ", ") + address;
  }
  require(peer.socket >= 0, Error::Kind::io,
          "World: rank {} on {} cannot reach rank 0 on {} at port {} of {}; ranks need TCP connections to rank 0",
          rank_, hosts_[static_cast<std::size_t>(rank_)], hosts_[0], port, tried);
  set_up(peer.socket);
  peers_.push_back(peer);
}

std::string Monitor::failure() const {
  const std::lock_guard lock(mutex_);
  return failure_;
}

void Monitor::note(int rank, Reason reason) {
  {
    const std::lock_guard lock(mutex_);
    if (!failure_.empty()) return;
    const char* what = reason == Reason::died     ? "has died"
                       : reason == Reason::silent ? "has been silent for 5 s: it was stopped, or the network is cut"
                       : reason == Reason::late
                           ? "works, but does not arrive at a collective that others wait in (set_patience)"
                           : "does nothing and does not arrive at a collective that others wait in: it hangs";
    failure_ = fmt::format("World: rank {} on {} {}", rank, hosts_[static_cast<std::size_t>(rank)], what);
    failed_.store(true, std::memory_order_release);
  }
  if (rank_ != 0) return;
  const ControlMessage news(kFailed, static_cast<std::uint64_t>(rank) << 8 | static_cast<std::uint64_t>(reason));
  for (const Peer& p : peers_) {
    if (p.socket >= 0 && p.rank != rank) send_message(p.socket, news);
  }
}

void Monitor::message(Peer& peer) {
  std::uint64_t number = 0;
  std::memcpy(&number, peer.part + 1, sizeof number);
  if (peer.part[0] == kGoodbye) {
    ::close(peer.socket);
    peer.socket = -1;
  } else if (peer.part[0] == kFailed) {
    note(static_cast<int>(number >> 8), static_cast<Reason>(number & 0xff));
  } else {
    std::uint64_t idle = 0;
    std::memcpy(&idle, peer.part + 9, sizeof idle);
    peer.idle = 1e-3 * static_cast<double>(idle);
    peer.number = number;
  }
}

void Monitor::read_from(Peer& peer) {
  while (peer.socket >= 0) {
    const ssize_t n = ::recv(peer.socket, peer.part + peer.filled, kMessage - peer.filled, MSG_DONTWAIT);
    if (n > 0) {
      peer.heard = Clock::now();
      peer.filled += static_cast<std::size_t>(n);
      if (peer.filled < kMessage) continue;
      peer.filled = 0;
      message(peer);
    } else if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) {
      return;
    } else {
      ::close(peer.socket);
      peer.socket = -1;
      note(peer.rank, Reason::died);
    }
  }
}

void Monitor::look_for_silence() {
  for (const Peer& p : peers_) {
    if (p.socket >= 0 && since(p.heard) > kSilenceSeconds) note(p.rank, Reason::silent);
  }
}

// Everyone is alive, but some wait in a collective at which others do not arrive. Rank 0 knows how far each of them is.
void Monitor::look_for_hangs() {
  if (rank_ != 0 || peers_.empty()) return;
  Awaited last{0, number_.load(std::memory_order_relaxed)};
  std::uint64_t most = last.number;
  double idle = own_idle_;
  for (const Peer& p : peers_) {
    if (p.socket < 0) continue;
    most = std::max(most, p.number);
    if (p.number < last.number) last = {p.rank, p.number}, idle = p.idle;
  }
  if (last.number == most || last != awaited_) {
    awaited_ = last;
    awaited_since_ = Clock::now();
  }
  const double seconds = since(awaited_since_);
  if (std::min(seconds, idle) > idle_patience_.load(std::memory_order_relaxed)) {
    note(last.rank, Reason::hangs);
  } else if (seconds > patience_.load(std::memory_order_relaxed)) {
    note(last.rank, Reason::late);
  }
}

void Monitor::send_beats() {
  own_idle_ = own_.idle_seconds();
  const ControlMessage beat(kBeat, number_.load(std::memory_order_relaxed),
                            static_cast<std::uint64_t>(1e3 * own_idle_));
  for (const Peer& p : peers_) {
    if (p.socket >= 0) send_message(p.socket, beat);
  }
}

void Monitor::watch() {
  Clock::time_point sent = Clock::now(), woke = Clock::now();
  send_beats();
  while (!stopping_.load(std::memory_order_acquire)) {
    std::vector<pollfd> all{{wake_[0], POLLIN, 0}};
    for (const Peer& p : peers_) all.push_back({p.socket, POLLIN, 0});  // negative ones are ignored
    ::poll(all.data(), all.size(), 100);
    // A rank that was itself stopped must not take the others for silent: their pending messages are read first.
    if (since(woke) > kSilenceSeconds / 2) {
      for (Peer& p : peers_) p.heard = Clock::now();
      awaited_since_ = Clock::now();
    }
    woke = Clock::now();
    for (Peer& p : peers_) read_from(p);
    look_for_silence();
    look_for_hangs();
    if (since(sent) > kBeatSeconds) {
      send_beats();
      sent = Clock::now();
    }
  }
}

void Monitor::stop(bool goodbye) noexcept {
  if (!thread_.joinable()) return;
  stopping_.store(true, std::memory_order_release);
  [[maybe_unused]] const ssize_t woken = ::write(wake_[1], "x", 1);
  thread_.join();
  for (Peer& p : peers_) {
    if (p.socket < 0) continue;
    if (goodbye) send_message(p.socket, ControlMessage(kGoodbye, 0));
    ::close(p.socket);
    p.socket = -1;
  }
}

}  // namespace ebb::comm
