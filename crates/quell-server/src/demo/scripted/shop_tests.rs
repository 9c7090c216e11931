use quell_sim::dist::Dist;

use super::super::Sharing;
use super::*;

const MS: Duration = Duration::from_millis(1);

/// A shop with its clock running, on paused time.
fn shop(workers: usize, sharing: Sharing, service: impl Into<Dist>) -> Arc<Shop> {
    let shape = Shape { workers, service: service.into(), sharing, seed: 1 };
    let shop = Arc::new(Shop::new(&shape).unwrap());
    let clock = Arc::clone(&shop);
    tokio::spawn(async move { clock.tick().await });
    shop
}

/// How long after now each of so many who come now is answered.
async fn answers(shop: &Shop, callers: usize) -> Vec<Duration> {
    let come = Instant::now();
    let fates: Vec<_> = (0..callers).map(|_| shop.place(None, None)).collect();
    let mut answers = Vec::new();
    for fate in fates {
        let Fate::Line(due) = fate else { panic!("not in the line") };
        due.await.unwrap();
        answers.push(come.elapsed());
    }
    answers
}

#[tokio::test(start_paused = true)]
async fn replies_leave_when_their_share_of_the_work_is_done() {
    let fifo = shop(1, Sharing::Fifo, MS * 10);
    assert_eq!(answers(&fifo, 3).await, [MS * 10, MS * 20, MS * 30]);
    let shared = shop(1, Sharing::Equal, MS * 10);
    assert_eq!(answers(&shared, 3).await, [MS * 30; 3]);
    assert_eq!(answers(&shared, 1).await, [MS * 10]);
    let degrading = shop(2, Sharing::Degrading(0.5), MS * 10);
    assert_eq!(answers(&degrading, 6).await, [MS * 60; 6]);
}

#[tokio::test(start_paused = true)]
async fn one_more_beside_them_wakes_the_clock_no_later_than_it_should() {
    let shop = shop(1, Sharing::Equal, MS * 100);
    let long = async { answers(&shop, 1).await };
    let short = async {
        tokio::time::sleep(MS * 10).await;
        shop.begin(Outage::Hang { share: 1.0, time: MS * 20 });
        answers(&shop, 1).await
    };
    let (long, short) = tokio::join!(long, short);
    assert_eq!((long, short), (vec![MS * 120], vec![MS * 40]));
}

#[tokio::test(start_paused = true)]
async fn trouble_begins_and_ends_with_the_work_that_starts_in_it() {
    let shop = shop(1, Sharing::Fifo, MS * 10);
    shop.begin(Outage::Slow { factor: 10.0 });
    let slow = async { answers(&shop, 3).await };
    let mends = async {
        tokio::time::sleep(MS * 150).await;
        shop.end();
    };
    let (slow, ()) = tokio::join!(slow, mends);
    assert_eq!(slow, [MS * 100, MS * 200, MS * 210]);
}

#[tokio::test(start_paused = true)]
async fn times_that_are_drawn_have_their_mean() {
    let shop = shop(1, Sharing::Fifo, Dist::Exponential { mean: MS * 10 });
    let last = answers(&shop, 10_000).await.pop().unwrap();
    assert!((98..102).contains(&last.as_secs()), "10,000 × 10 ms took {last:?}");
}

#[test]
fn what_makes_no_sense_is_refused_with_the_fix() {
    let refused = |shape: &Shape| Shop::new(shape).err().unwrap().to_string();
    let shape = Shape::constant(1, MS);
    let none = Shape { workers: 0, ..shape.clone() };
    assert!(refused(&none).contains("write at least 1"));
    let gains = Shape { sharing: Sharing::Degrading(-1.0), ..shape.clone() };
    assert!(refused(&gains).contains("such as 0.5"));
    let service = Dist::Bimodal { fast: MS, slow: MS, share: 2.0 };
    assert!(refused(&Shape { service, ..shape }).contains("write"));
}
