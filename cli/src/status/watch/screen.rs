//! The terminal: switches to its alternate screen for drawing, and always restores the previous state.

use std::fs::File;
use std::io::{self, Stdout, Write};
use std::os::fd::AsFd;
use std::sync::{Mutex, MutexGuard, Once, PoisonError};

use rustix::termios::{self, LocalModes, OptionalActions, Termios};

/// Switches to the alternate screen (xterm's 1049), hides the cursor, and cuts lines at the edge, since characters may
/// be wider than one column.
const ENTER: &str = "\x1b[?1049h\x1b[?25l\x1b[?7l\x1b[2J";
const LEAVE: &str = "\x1b[0m\x1b[?7h\x1b[?25h\x1b[?1049l";
/// The size for a terminal that doesn't report one.
const SIZE: (usize, usize) = (24, 80);

/// The terminal and its original settings. It is a static, so that a panic in any thread can restore them.
static TAKEN: Mutex<Option<(File, Termios)>> = Mutex::new(None);
static HOOK: Once = Once::new();

fn taken() -> MutexGuard<'static, Option<(File, Termios)>> {
    TAKEN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A terminal to draw on. Dropping it restores the terminal.
pub struct Screen {
    terminal: File,
}

impl Screen {
    /// Sets up the terminal.
    ///
    /// # Errors
    /// It isn't a terminal.
    pub fn enter(stdout: &Stdout) -> io::Result<Screen> {
        Screen::on(stdout.as_fd().try_clone_to_owned()?.into())
    }

    fn on(terminal: File) -> io::Result<Screen> {
        HOOK.call_once(|| {
            let say = std::panic::take_hook();
            std::panic::set_hook(Box::new(move |panic| {
                restore();
                say(panic);
            }));
        });
        let mut screen = Screen { terminal };
        screen.enter_again()?;
        Ok(screen)
    }

    /// Sets up the terminal again, even if another program has changed its state.
    ///
    /// # Errors
    /// The terminal accepts no settings or no output.
    pub fn enter_again(&mut self) -> io::Result<()> {
        let mut taken = taken();
        if taken.is_none() {
            let before = termios::tcgetattr(&self.terminal)?;
            *taken = Some((self.terminal.try_clone()?, before));
        }
        if let Some((_, before)) = &*taken {
            // Keys arrive at once and without echo; Ctrl-C and Ctrl-Z stay signals.
            let mut ours = before.clone();
            ours.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO);
            termios::tcsetattr(&self.terminal, OptionalActions::Now, &ours)?;
        }
        self.terminal.write_all(ENTER.as_bytes())
    }

    /// Restores the terminal.
    #[expect(clippy::unused_self, reason = "only who has the screen may give it back")]
    pub fn leave(&mut self) {
        restore();
    }

    /// Draws rows over the previous ones; does nothing if the terminal is restored.
    ///
    /// # Errors
    /// The terminal accepts no output.
    pub fn draw(&mut self, rows: impl FnOnce(usize, usize) -> Vec<String>) -> io::Result<()> {
        if taken().is_none() {
            return Ok(());
        }
        let (height, width) = self.size();
        let mut picture = "\x1b[H".to_owned();
        for (index, row) in rows(height, width).iter().enumerate() {
            picture += if index == 0 { "" } else { "\r\n" };
            picture += &format!("{row}\x1b[K");
        }
        picture += "\x1b[J";
        self.terminal.write_all(picture.as_bytes())
    }

    fn size(&self) -> (usize, usize) {
        let size = termios::tcgetwinsize(&self.terminal).ok();
        size.filter(|size| size.ws_row > 0 && size.ws_col > 0)
            .map_or(SIZE, |size| (size.ws_row.into(), size.ws_col.into()))
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        restore();
    }
}

/// Restores the terminal. Keys that were not read are lost.
fn restore() {
    if let Some((mut terminal, before)) = taken().take() {
        let _ = terminal.write_all(LEAVE.as_bytes());
        let _ = termios::tcsetattr(&terminal, OptionalActions::Flush, &before);
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
    use rustix::termios::{Winsize, tcgetattr, tcsetwinsize};

    use super::*;

    fn pseudo_terminal() -> (File, File) {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        let path = ptsname(&master, Vec::new()).unwrap().into_string().unwrap();
        let terminal = File::options().read(true).write(true).open(path).unwrap();
        (master.into(), terminal)
    }

    /// What was written to the terminal.
    fn said(master: &mut File) -> String {
        let mut buffer = [0; 4096];
        let is_there = || rustix::io::ioctl_fionread(&*master).unwrap() > 0;
        for _ in 0..1000 {
            if is_there() {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        assert!(is_there(), "nothing was said");
        let count = master.read(&mut buffer).unwrap();
        String::from_utf8_lossy(&buffer[..count]).into_owned()
    }

    fn is_as_before(terminal: &File, before: &Termios) -> bool {
        tcgetattr(terminal).unwrap().local_modes == before.local_modes
    }

    /// A single test, because the process has only one screen.
    #[test]
    fn the_terminal_is_given_back_whatever_happens() {
        let (mut master, terminal) = pseudo_terminal();
        let before = tcgetattr(&terminal).unwrap();
        let draw = |screen: &mut Screen| screen.draw(|rows, columns| vec![format!("{rows}x{columns}")]);

        let mut screen = Screen::on(terminal.try_clone().unwrap()).unwrap();
        assert_eq!(said(&mut master), ENTER);
        assert!(!tcgetattr(&terminal).unwrap().local_modes.intersects(LocalModes::ICANON | LocalModes::ECHO));
        draw(&mut screen).unwrap();
        assert_eq!(said(&mut master), "\x1b[H24x80\x1b[K\x1b[J");
        tcsetwinsize(&terminal, Winsize { ws_row: 5, ws_col: 40, ws_xpixel: 0, ws_ypixel: 0 }).unwrap();
        draw(&mut screen).unwrap();
        assert_eq!(said(&mut master), "\x1b[H5x40\x1b[K\x1b[J");

        screen.leave();
        assert_eq!(said(&mut master), LEAVE);
        assert!(is_as_before(&terminal, &before));
        screen.enter_again().unwrap();
        assert_eq!(said(&mut master), ENTER);
        drop(screen);
        assert_eq!(said(&mut master), LEAVE);
        assert!(is_as_before(&terminal, &before));

        let screen = Screen::on(terminal.try_clone().unwrap()).unwrap();
        assert_eq!(said(&mut master), ENTER);
        // On another thread, like a refresh: its panic restores the terminal before it prints anything.
        let panic = std::thread::spawn(|| panic!("on purpose")).join();
        assert!(panic.is_err() && is_as_before(&terminal, &before));
        assert_eq!(said(&mut master), LEAVE);
        drop(screen);

        let screen = Screen::on(terminal.try_clone().unwrap()).unwrap();
        assert_eq!(said(&mut master), ENTER);
        let panic = catch_unwind(AssertUnwindSafe(|| {
            let _screen = screen;
            panic!("on purpose");
        }));
        assert!(panic.is_err() && is_as_before(&terminal, &before));
        assert_eq!(said(&mut master), LEAVE);
    }
}
