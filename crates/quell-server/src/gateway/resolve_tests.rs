//! Names that move, hang and fail, and addresses that do.

use std::future::pending;

use tokio::net::TcpListener;
use tokio::task::LocalSet;
use tokio::time::sleep;

use super::*;

const EVERY: Duration = Duration::from_secs(30);
const WITHIN: Duration = Duration::from_secs(2);

/// A name service that answers as told, and counts.
struct Names {
    told: RefCell<Box<dyn FnMut(usize) -> Option<Found>>>,
    asked: Cell<usize>,
}

impl Names {
    /// The n-th question (from 1) is answered so; `None` is never answered.
    fn new(told: impl FnMut(usize) -> Option<Found> + 'static) -> Rc<Self> {
        Rc::new(Self { told: RefCell::new(Box::new(told)), asked: Cell::new(0) })
    }

    fn resolver(self: &Rc<Self>, host: &str) -> Rc<Resolver> {
        let this = Rc::clone(self);
        let lookup = Lookup(Box::new(move |_, _| {
            this.asked.set(this.asked.get() + 1);
            let found = (this.told.borrow_mut())(this.asked.get());
            Box::pin(async move {
                sleep(Duration::from_millis(10)).await;
                match found {
                    Some(found) => found,
                    None => pending().await,
                }
            })
        }));
        Resolver::with(host, 80, EVERY, lookup)
    }
}

fn addr(last: u8) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, last], 80))
}

/// Reaches the first address that is not said to be down, as that address.
async fn reach(resolver: &Rc<Resolver>, down: &[SocketAddr]) -> io::Result<SocketAddr> {
    let refused = || io::Error::from(io::ErrorKind::ConnectionRefused);
    resolver
        .reach(WITHIN, |addr| async move {
            if down.contains(&addr) { Err(refused()) } else { Ok(addr) }
        })
        .await
}

#[tokio::test(start_paused = true)]
async fn a_herd_waits_for_one_lookup_and_a_name_that_moved_is_found_again() {
    let test = async {
        let names = Names::new(|n| Some(Ok(vec![addr(n as u8)])));
        let resolver = names.resolver("shop.internal");
        let herd: Vec<_> = (0..50)
            .map(|_| {
                let resolver = Rc::clone(&resolver);
                spawn_local(async move { reach(&resolver, &[]).await.unwrap() })
            })
            .collect();
        for caller in herd {
            assert_eq!(caller.await.unwrap(), addr(1));
        }
        assert_eq!(names.asked.get(), 1);
        sleep(EVERY).await;
        // Nobody waits for the second lookup: the old address will do meanwhile.
        let begun = Instant::now();
        assert_eq!(reach(&resolver, &[]).await.unwrap(), addr(1));
        assert_eq!(begun.elapsed(), Duration::ZERO);
        sleep(Duration::from_millis(20)).await;
        assert_eq!(reach(&resolver, &[]).await.unwrap(), addr(2));
        assert_eq!(names.asked.get(), 2);
    };
    LocalSet::new().run_until(test).await;
}

#[tokio::test(start_paused = true)]
async fn a_failed_connect_looks_again_and_a_failed_lookup_forgets_nothing() {
    let test = async {
        let names = Names::new(|n| match n {
            1 => Some(Ok(vec![addr(1)])),
            2 => Some(Err(io::ErrorKind::TimedOut.into())),
            _ => Some(Ok(vec![addr(2)])),
        });
        let resolver = names.resolver("shop.internal");
        let down = [addr(1)];
        reach(&resolver, &[]).await.unwrap();
        let mut tries = 0;
        while reach(&resolver, &down).await.is_err() {
            tries += 1;
            sleep(Duration::from_millis(100)).await;
        }
        // Once a second, and no more: at 1 s the lookup fails, at 2 s it finds the new address.
        assert_eq!(names.asked.get(), 3);
        assert!((18..=24).contains(&tries), "{tries}");
    };
    LocalSet::new().run_until(test).await;
}

#[tokio::test(start_paused = true)]
async fn a_name_that_cannot_be_looked_up_says_so_and_is_not_asked_for_every_call() {
    let test = async {
        let names = Names::new(|_| Some(Err(io::Error::other("no such name"))));
        let resolver = names.resolver("nowhere.internal");
        for _ in 0..100 {
            let error = reach(&resolver, &[]).await.unwrap_err().to_string();
            assert_eq!(error, "nowhere.internal cannot be looked up: no such name");
        }
        assert_eq!(names.asked.get(), 1);
    };
    LocalSet::new().run_until(test).await;
}

#[tokio::test(start_paused = true)]
async fn a_lookup_that_hangs_holds_a_connect_no_longer_than_its_time_and_is_not_repeated() {
    let test = async {
        let names = Names::new(|_| None);
        let resolver = names.resolver("shop.internal");
        for _ in 0..3 {
            let begun = Instant::now();
            let error = reach(&resolver, &[]).await.unwrap_err();
            assert_eq!((error.kind(), begun.elapsed()), (io::ErrorKind::TimedOut, WITHIN));
        }
        assert_eq!(names.asked.get(), 1);
    };
    LocalSet::new().run_until(test).await;
}

#[tokio::test(start_paused = true)]
async fn an_address_that_hangs_leaves_time_for_the_next_and_is_tried_last_afterwards() {
    let test = async {
        let names = Names::new(|_| Some(Ok(vec![addr(1), addr(2)])));
        let resolver = names.resolver("shop.internal");
        let connect =
            |to: SocketAddr| async move { if to == addr(1) { pending().await } else { Ok(to) } };
        let mut slow = 0;
        for _ in 0..10 {
            let begun = Instant::now();
            assert_eq!(resolver.reach(WITHIN, connect).await.unwrap(), addr(2));
            slow += u32::from(begun.elapsed() > Duration::from_millis(100));
            assert!(begun.elapsed() < WITHIN);
        }
        assert_eq!(slow, 1);
        let begun = Instant::now();
        let hang = |_| pending::<io::Result<()>>();
        let error = resolver.reach(WITHIN, hang).await.unwrap_err();
        assert_eq!((error.kind(), begun.elapsed()), (io::ErrorKind::TimedOut, WITHIN));
    };
    LocalSet::new().run_until(test).await;
}

#[tokio::test]
async fn addresses_are_connected_to_without_a_lookup() {
    let test = async {
        let names = Names::new(|_| None);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let here = listener.local_addr().unwrap();
        let resolver = Resolver::new("127.0.0.1", here.port(), EVERY, None);
        let stream = resolver.connect(WITHIN).await.unwrap();
        assert_eq!(stream.peer_addr().unwrap(), here);
        assert!(stream.nodelay().unwrap());
        let resolver = Resolver::new("localhost", here.port(), EVERY, None);
        assert_eq!(resolver.connect(WITHIN).await.unwrap().peer_addr().unwrap(), here);
        for literal in ["127.0.0.1", "::1"] {
            let resolver = names.resolver(literal);
            reach(&resolver, &[]).await.unwrap();
            resolver.refresh();
        }
        assert_eq!(names.asked.get(), 0);
    };
    LocalSet::new().run_until(test).await;
}
