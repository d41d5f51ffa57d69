/* Queues of the reference device in real time: a thread each, that sleeps and spins until an operation's end. */
#ifndef REFDEVICE_THREADS_H
#define REFDEVICE_THREADS_H

static pthread_mutex_t queues_lock = PTHREAD_MUTEX_INITIALIZER;

static void wait_until(int64_t deadline) {
  int64_t spin = (int64_t)device_config.spin_ns;
  if (deadline - now_ns() > spin) sleep_until(deadline - spin);
  while (now_ns() < deadline) {
  }
}

/* ---- the host's own work ---- */

static int64_t thread_cpu_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return now.tv_sec * 1000000000ll + now.tv_nsec;
}

static struct {
  pthread_mutex_t lock;
  pthread_cond_t wake;
  bool has_thread;
  int64_t owed_ns; /* CPU time that its thread has still to take */
} busy = {.lock = PTHREAD_MUTEX_INITIALIZER, .wake = PTHREAD_COND_INITIALIZER};

static void *busy_loop(void *nothing) {
  (void)nothing;
  pthread_mutex_lock(&busy.lock);
  for (;;) {
    while (busy.owed_ns <= 0) pthread_cond_wait(&busy.wake, &busy.lock);
    int64_t end = thread_cpu_ns() + busy.owed_ns;
    busy.owed_ns = 0;
    pthread_mutex_unlock(&busy.lock);
    while (thread_cpu_ns() < end) {
    }
    pthread_mutex_lock(&busy.lock);
  }
  return nothing;
}

/* What an inference costs the host: a thread of its own begins to be busy, and the caller is for a while. */
static void take_host_time(void) {
  int64_t until = now_ns() + (int64_t)device_config.submit_ns;
  if (device_config.busy_ns > 0) {
    pthread_t thread;
    pthread_mutex_lock(&busy.lock);
    if (!busy.has_thread) busy.has_thread = pthread_create(&thread, NULL, busy_loop, NULL) == 0;
    busy.owed_ns += (int64_t)device_config.busy_ns;
    pthread_cond_signal(&busy.wake);
    pthread_mutex_unlock(&busy.lock);
  }
  while (now_ns() < until) {
  }
}

/* What a call costs the host is what it takes. */
static void host_call(void) {}

static void engine_take(Engine *engine) {
  if (!engine) return;
  pthread_mutex_lock(&engine->lock);
  uint64_t ticket = engine->asked++;
  while (engine->served != ticket) pthread_cond_wait(&engine->next, &engine->lock);
  pthread_mutex_unlock(&engine->lock);
}

static void engine_give(Engine *engine, int64_t end) {
  if (!engine) return;
  pthread_mutex_lock(&engine->lock);
  engine->served++;
  engine->last_end = end;
  pthread_cond_broadcast(&engine->next);
  pthread_mutex_unlock(&engine->lock);
}

static void op_execute(Queue *queue, Op *op) {
  Event *event = &op->event;
  Engine *engine = engine_of(event);
  engine_take(engine);
  event->start_ns = op->ready_ns > queue->last_end ? op->ready_ns : queue->last_end;
  if (engine && engine->last_end > event->start_ns) event->start_ns = engine->last_end;
  event->planned_end_ns = event->start_ns + op->duration_ns;
  int64_t work_start = now_ns();
  op->work(op);
  event->work_ns = now_ns() - work_start;
  wait_until(event->planned_end_ns);
  op->finish(op);
  event->end_ns = queue->last_end = now_ns();
  engine_give(engine, event->end_ns);
  trace(event);
}

/* Carries one operation out. The lock is held before and after, not while the device works. */
static void queue_serve(Queue *queue, Op *op) {
  queue->busy = true;
  pthread_mutex_unlock(&queue->lock);
  op_execute(queue, op);
  op->release(op);
  pthread_mutex_lock(&queue->lock);
  queue->busy = false;
  atomic_fetch_add(&queue->done, 1);
  pthread_cond_signal(&queue->wake);
}

static void *queue_thread(void *argument) {
  Queue *queue = argument;
  prctl(PR_SET_NAME, "refdevice");
  prctl(PR_SET_TIMERSLACK, 1);
  pthread_mutex_lock(&queue->lock);
  while (!queue->stop || queue->first) {
    Op *op = queue->busy ? NULL : queue->first;
    if (!op) {
      pthread_cond_wait(&queue->wake, &queue->lock);
      continue;
    }
    queue->first = op->next;
    queue_serve(queue, op);
  }
  pthread_mutex_unlock(&queue->lock);
  return NULL;
}

static void queue_wait(Queue *queue, uint64_t submitted) {
  while (atomic_load(&queue->done) < submitted) {
    int64_t now = now_ns(), spin = (int64_t)device_config.spin_ns, early = atomic_load(&queue->horizon) - now;
    if (early > spin) sleep_until(now + early - spin);
    else if (early > -5000000) sched_yield(); /* the device's thread may need this very core */
    else usleep(50);
  }
}

static void queue_drain(Queue *queue) { queue_wait(queue, atomic_load(&queue->submitted)); }

static void drain_all(void) {
  pthread_mutex_lock(&queues_lock);
  for (Queue *queue = queues; queue; queue = queue->next) queue_drain(queue);
  pthread_mutex_unlock(&queues_lock);
}

/* With the lock held. */
static uint64_t queue_claim(Queue *queue, const Op *op) {
  int64_t horizon = atomic_load(&queue->horizon);
  int64_t start = horizon > op->ready_ns ? horizon : op->ready_ns;
  atomic_store(&queue->horizon, start + op->duration_ns);
  return atomic_fetch_add(&queue->submitted, 1) + 1;
}

static void queue_push(Queue *queue, Op *op) {
  op->event.queue = queue->id;
  pthread_mutex_lock(&queue->lock);
  queue_claim(queue, op);
  if (queue->first) queue->last->next = op;
  else queue->first = op;
  queue->last = op;
  if (!queue->has_thread) queue->has_thread = pthread_create(&queue->thread, NULL, queue_thread, queue) == 0;
  if (!queue->has_thread) abort();
  pthread_cond_signal(&queue->wake);
  pthread_mutex_unlock(&queue->lock);
}

/* Runs an operation in the calling thread, behind everything that is in the queue. */
static void queue_run(Queue *queue, Op *op) {
  op->event.queue = queue->id;
  op->watched = true;
  pthread_mutex_lock(&queue->lock);
  uint64_t ticket = queue->asked++;
  while (queue->first || queue->busy || queue->turn != ticket) {
    pthread_mutex_unlock(&queue->lock);
    if (atomic_load(&queue->done) < atomic_load(&queue->submitted)) queue_drain(queue);
    else sched_yield();
    pthread_mutex_lock(&queue->lock);
  }
  queue->turn++;
  queue_claim(queue, op);
  queue_serve(queue, op);
  pthread_mutex_unlock(&queue->lock);
}

static Queue *queue_open(void) {
  Queue *queue = zeroed(sizeof *queue);
  pthread_mutex_init(&queue->lock, NULL);
  pthread_cond_init(&queue->wake, NULL);
  pthread_mutex_lock(&queues_lock);
  queue->id = ++queues_made;
  queue->next = queues;
  queues = queue;
  pthread_mutex_unlock(&queues_lock);
  return queue;
}

static void queue_stop_thread(Queue *queue) {
  if (!queue->has_thread) return;
  pthread_mutex_lock(&queue->lock);
  queue->stop = true;
  pthread_cond_signal(&queue->wake);
  pthread_mutex_unlock(&queue->lock);
  pthread_join(queue->thread, NULL);
  queue->has_thread = queue->stop = false;
}

static void queue_close(Queue *queue) {
  queue_stop_thread(queue);
  pthread_mutex_lock(&queues_lock);
  Queue **link = &queues;
  while (*link != queue) link = &(*link)->next;
  *link = queue->next;
  pthread_mutex_unlock(&queues_lock);
  free(queue);
}

#endif
