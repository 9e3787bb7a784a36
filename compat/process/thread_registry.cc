#include "compat/process/thread_registry.h"

#include <limits.h>
#include <pthread.h>

#include <memory>
#include <mutex>
#include <type_traits>

#include "compat/process/scoped_signal_block.h"

namespace pollux::compat {
namespace {

// In the thread's own memory, as is its number.
struct Entry {
  uint64_t* number = nullptr;  // null: it is in no list
  Entry* previous = nullptr;
  Entry* next = nullptr;
};
constinit thread_local Entry own_entry;

// In the number of a thread that is in no list, since nobody would hear of its end.
constexpr uint64_t kEndUnheardOf = uint64_t{1} << 63;

// Of as many as the threads that have asked and live.
struct List {
  std::mutex mutex;
  Entry* first = nullptr;
  uint64_t last_number = 0;
};
static_assert(std::is_trivially_destructible_v<List>);  // threads outlive main()
constinit List list;

// A program's signal handler may ask too, on the thread that it has interrupted.
class Locked {
 private:
  const ScopedSignalBlock without_signals_;
  const std::lock_guard<std::mutex> lock_{list.mutex};
};

// In a child the others' memory is no thread's any more, and one of them may have had the mutex.
void KeepOwnAlone() {
  std::construct_at(&list.mutex);
  own_entry.previous = own_entry.next = nullptr;
  list.first = own_entry.number == nullptr ? nullptr : &own_entry;
}

// At a thread's end; if it asks again after that, in destructors of others, it begins anew.
void Disappear(void* /*entry*/) {
  const Locked locked;
  (own_entry.previous == nullptr ? list.first : own_entry.previous->next) = own_entry.next;
  if (own_entry.next != nullptr) own_entry.next->previous = own_entry.previous;
  *own_entry.number = 0;
  own_entry = {};
}

// Before any thread asks: a guard that one takes at its first call would not be given back in a
// child of another one's.
pthread_key_t MakeKey() {
  pthread_key_t key;
  const bool made = pthread_atfork(nullptr, nullptr, KeepOwnAlone) == 0 &&
                    pthread_key_create(&key, Disappear) == 0;
  return made ? key : PTHREAD_KEYS_MAX;
}
const pthread_key_t end_of_thread = MakeKey();

}  // namespace

void ThreadRegistry::Appear() {
  const Locked locked;
  if (own_ != 0) return;  // by a signal handler meanwhile
  own_ = ++list.last_number;
  if (pthread_setspecific(end_of_thread, &own_entry) != 0) {
    own_ |= kEndUnheardOf;
    return;
  }
  own_entry = {.number = &own_, .previous = nullptr, .next = list.first};
  if (list.first != nullptr) list.first->previous = &own_entry;
  list.first = &own_entry;
}

bool ThreadRegistry::Has(uint64_t number) {
  if ((number & kEndUnheardOf) != 0) return true;
  const Locked locked;
  for (const Entry* entry = list.first; entry != nullptr; entry = entry->next) {
    if (*entry->number == number) return true;
  }
  return false;
}

}  // namespace pollux::compat
