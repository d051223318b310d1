//! Objects with ids that are reused: memory is allocated only when there are more objects than
//! ever.

#[derive(Clone, Debug)]
pub(crate) struct Pool<T> {
    items: Vec<T>,
    free: Vec<u32>,
}

impl<T> Default for Pool<T> {
    fn default() -> Self {
        Self { items: Vec::new(), free: Vec::new() }
    }
}

impl<T> Pool<T> {
    pub(crate) fn add(&mut self, item: T) -> u32 {
        if let Some(id) = self.free.pop() {
            self.items[id as usize] = item;
            return id;
        }
        self.items.push(item);
        (self.items.len() - 1) as u32
    }

    pub(crate) fn remove(&mut self, id: u32) {
        self.free.push(id);
    }

    /// How many places there are; all ids are below.
    pub(crate) fn places(&self) -> u32 {
        self.items.len() as u32
    }

    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        self.items.len() - self.free.len()
    }
}

impl<T> core::ops::Index<u32> for Pool<T> {
    type Output = T;

    fn index(&self, id: u32) -> &T {
        &self.items[id as usize]
    }
}

impl<T> core::ops::IndexMut<u32> for Pool<T> {
    fn index_mut(&mut self, id: u32) -> &mut T {
        &mut self.items[id as usize]
    }
}
