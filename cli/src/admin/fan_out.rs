use std::future::Future;

use tokio::task::JoinSet;

/// Requests under way at once: enough to hide the way there, few enough for a broker not to notice.
const AT_ONCE: usize = 16;

/// Does the same for each of many, some of them at once. The results are in the order of the items.
pub(crate) async fn fan_out<T, R, F>(
    items: impl IntoIterator<Item = T>,
    mut ask: impl FnMut(T) -> F,
) -> Vec<R>
where
    F: Future<Output = R> + Send + 'static,
    R: Send + 'static,
{
    let mut asking = JoinSet::new();
    let mut results: Vec<Option<R>> = Vec::new();
    for (place, item) in items.into_iter().enumerate() {
        results.push(None);
        if asking.len() >= AT_ONCE {
            keep(&mut results, &mut asking).await;
        }
        let work = ask(item);
        asking.spawn(async move { (place, work.await) });
    }
    while !asking.is_empty() {
        keep(&mut results, &mut asking).await;
    }
    results.into_iter().flatten().collect()
}

/// Waits for one result.
async fn keep<R: 'static>(results: &mut [Option<R>], asking: &mut JoinSet<(usize, R)>) {
    // A task that panicked has told so; nothing here stops one.
    if let Some(Ok((place, result))) = asking.join_next().await
        && let Some(slot) = results.get_mut(place)
    {
        *slot = Some(result);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn results_keep_their_order_and_only_some_run_at_once() {
        let (running, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let results = fan_out(0..100_u64, |number| {
            let (running, most) = (Arc::clone(&running), Arc::clone(&most));
            async move {
                let now = running.fetch_add(1, Ordering::SeqCst) + 1;
                most.fetch_max(now, Ordering::SeqCst);
                tokio::time::sleep(Duration::from_millis(number % 3)).await;
                running.fetch_sub(1, Ordering::SeqCst);
                number
            }
        })
        .await;
        assert_eq!(results, (0..100).collect::<Vec<_>>());
        assert_eq!(most.load(Ordering::SeqCst), AT_ONCE);
    }
}
