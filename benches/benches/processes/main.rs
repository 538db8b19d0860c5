//! One quota for several processes: in shared memory, under a mutex that processes share, and in Redis.
//!
//! Processes are started once for a limiter and a case. They take turns as other benches' threads do: the
//! parent sends each a number of decisions, and each reports when it began and ended, by the clock that all read.

mod case;
mod locked;
mod redis;
mod worker;

use case::{Case, KINDS, Kind};
use redis::Server;
use tollgate_benches::calls::Calls;
use tollgate_benches::options::Options;
use tollgate_benches::report::{calls, compared, heading, note, quartiles, table, text};
use tollgate_benches::rounds::{Admitted, Figures};
use worker::{Asked, Place, Worker, locked, work};

const PROCESSES: [usize; 3] = [1, 2, 4];
/// Turns in which each call is timed.
const TIMED_TURNS: usize = 10;

fn main() {
    let options = Options::from_args();
    if let Some(task) = &options.child {
        return work(task);
    }
    heading("processes: one quota for several processes");
    let server = Server::start();
    if server.is_none() {
        note("SKIPPED: there is no redis-server here.");
    }
    let mut summary = Vec::new();
    for is_hot in [false, true] {
        for is_admitted in [true, false] {
            let case = Case { is_hot, is_admitted };
            run(&options, case, server.as_ref(), &mut summary);
        }
    }
    let header = [
        "keys",
        "limiter",
        "1 process, M/s",
        "2, M/s",
        "4, M/s",
        "1 process, p50 ns",
        "p99.9",
        "2, p50 ns",
        "p99.9",
        "4, p50 ns",
        "p99.9",
    ];
    text("processes: one quota for several", &header, summary);
    note(
        "*M/s*: million decisions a second of all processes, the median round. *p50*, *p99.9*: of single calls, \
         with the reading of a timer. Four processes have to wait for a processor where there are two. A \
         limiter without a shared quota is there to compare with.",
    );
}

/// The processes of one limiter.
struct Team {
    kind: Kind,
    workers: Vec<Worker>,
    path: String,
}

impl Team {
    fn start(kind: Kind, case: Case, port: u16) -> Self {
        let path = format!("/dev/shm/tollgate-bench-{}-{}", std::process::id(), kind.word());
        let place = Place { path, port };
        if let Kind::Locked(maps) = kind {
            locked(&place, maps, case).prepare();
        }
        let most = PROCESSES.into_iter().max().expect("some");
        let mut workers: Vec<Worker> =
            (0..most).map(|index| Worker::start(kind, case, index, &place)).collect();
        // It says that it is ready.
        workers.iter_mut().for_each(|worker| drop(worker.done()));
        Self { kind, workers, path: place.path }
    }

    /// One turn of the first processes: the wall time in nanoseconds, the decisions admitted, the calls.
    fn turn(&mut self, asked: Asked) -> (f64, usize, Vec<(u64, u64)>) {
        let workers = &mut self.workers[..asked.processes];
        workers.iter_mut().for_each(|worker| worker.ask(asked));
        let done: Vec<_> = workers.iter_mut().map(Worker::done).collect();
        let begin = done.iter().map(|done| done.begin_nanos).min().expect("processes");
        let end = done.iter().map(|done| done.end_nanos).max().expect("processes");
        let admitted = done.iter().map(|done| done.admitted).sum();
        (float(end - begin), admitted, done.into_iter().flat_map(|done| done.calls).collect())
    }
}

impl Drop for Team {
    fn drop(&mut self) {
        // A limiter in a process's own memory has no file.
        let _ = std::fs::remove_file(&self.path);
    }
}

fn row_name(kind: Kind, processes: usize) -> String {
    format!("{}, own clock, {processes} process(es)", kind.name())
}

fn run(options: &Options, case: Case, server: Option<&Server>, summary: &mut Vec<Vec<String>>) {
    let port = server.map_or(0, |server| server.port);
    let is_here = |kind: &Kind| *kind != Kind::Redis || server.is_some();
    let mut teams: Vec<Team> = KINDS
        .into_iter()
        .filter(is_here)
        .filter(|kind| options.wants(kind.name()))
        .map(|kind| Team::start(kind, case, port))
        .collect();
    let figures = speeds(options, &mut teams);
    let title = case.title();
    table(&format!("{title}, 1 to 4 processes"), &figures);
    for theirs in [Kind::Locked(1), Kind::Locked(64), Kind::Redis, Kind::PrivateMonotonic] {
        for processes in PROCESSES {
            let [over, under] = [theirs, Kind::Shared].map(|kind| row_name(kind, processes));
            compared(&title, &figures, [&over, &under]);
        }
    }
    let mut latencies = Vec::new();
    for processes in PROCESSES {
        let rows = single_calls(&mut teams, processes);
        let shared: Vec<&Calls> =
            rows.iter().zip(&teams).filter(|it| it.1.kind.is_shared()).map(|it| it.0).collect();
        calls(&format!("single calls: {title}, {processes} process(es)"), &shared);
        latencies.push(rows);
    }
    for (index, team) in teams.iter().enumerate() {
        let mut row = vec![title.clone(), team.kind.name().to_owned()];
        for processes in PROCESSES {
            let name = row_name(team.kind, processes);
            let nanos = figures.iter().find(|row| row.name == name).map(|row| &row.nanos);
            let median = quartiles(nanos.expect("a row of each"))[1];
            row.push(format!("{:.3}", float(processes as u64) * 1_000.0 / median));
        }
        for rows in &latencies {
            row.extend([50.0, 99.9].map(|percent| rows[index].nanos(percent).to_string()));
        }
        summary.push(row);
    }
    println!();
}

/// Runs the rows in turns: one round to warm up, then the measured rounds.
fn speeds(options: &Options, teams: &mut [Team]) -> Vec<Figures> {
    let mut figures = Vec::new();
    for team in &*teams {
        for threads in PROCESSES {
            let name = row_name(team.kind, threads);
            let of = options.rounds * team.kind.decisions() * threads;
            let admitted = Some(Admitted { count: 0, of });
            figures.push(Figures { name, threads, nanos: Vec::new(), admitted });
        }
    }
    for round in 0..=options.rounds {
        let mut rows = figures.iter_mut();
        for team in &mut *teams {
            let decisions = team.kind.decisions();
            for processes in PROCESSES {
                let asked = Asked { decisions, round, processes, is_timed: false };
                let (wall, count, _) = team.turn(asked);
                let row = rows.next().expect("a row of each");
                if round > 0 {
                    row.nanos.push(wall / float(decisions as u64));
                    row.admitted.as_mut().expect("it decides").count += count;
                }
            }
        }
    }
    figures
}

/// Times each call, while so many processes ask at the same time.
fn single_calls(teams: &mut [Team], processes: usize) -> Vec<Calls> {
    let mut rows: Vec<Calls> =
        teams.iter().map(|team| Calls::new(&format!("{}, own clock", team.kind.name()))).collect();
    for round in 0..TIMED_TURNS {
        for (team, row) in teams.iter_mut().zip(&mut rows) {
            let decisions = team.kind.decisions();
            let (_, _, calls) = team.turn(Asked { decisions, round, processes, is_timed: true });
            calls.into_iter().for_each(|(nanos, count)| row.record_all(nanos, count));
        }
    }
    rows
}

#[allow(clippy::cast_precision_loss, reason = "turns take milliseconds")]
fn float(number: u64) -> f64 {
    number as f64
}
