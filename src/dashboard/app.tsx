// The frame of the page: signing in, the way around, and which view the address names.
import { useCallback, useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';
import type { Client } from '../client/index.ts';
import { SessionContext } from './context.ts';
import icon from './icon.svg';
import { BatchPage } from './pages/batch.tsx';
import { BatchFormPage } from './pages/batch-form.tsx';
import { BatchesPage } from './pages/batches.tsx';
import { LimiterPage } from './pages/limiter.tsx';
import { LimiterFormPage } from './pages/limiter-form.tsx';
import { LimitersPage } from './pages/limiters.tsx';
import { OverviewPage } from './pages/overview.tsx';
import { SchedulePage } from './pages/schedule.tsx';
import { ScheduleFormPage } from './pages/schedule-form.tsx';
import { SchedulesPage } from './pages/schedules.tsx';
import { type Route, useRoute } from './route.ts';
import { clientWith, forgetToken, storedToken } from './session.ts';
import { SignIn } from './sign-in.tsx';

interface View {
  title: string;
  page: (props: { route: Route }) => preact.JSX.Element;
}

const VIEWS: Record<string, View> = {
  overview: { title: 'Overview', page: () => <OverviewPage /> },
  batches: { title: 'Batches', page: ({ route }) => (route.id === null ? <BatchesPage /> : <BatchView id={route.id} />) },
  schedules: { title: 'Schedules', page: ({ route }) => (route.id === null ? <SchedulesPage /> : <ScheduleView id={route.id} />) },
  limiters: { title: 'Limiters', page: ({ route }) => (route.id === null ? <LimitersPage /> : <LimiterView id={route.id} />) },
};

function BatchView({ id }: { id: string }) {
  return id === 'new' ? <BatchFormPage /> : <BatchPage key={id} id={id} />;
}

function ScheduleView({ id }: { id: string }) {
  return id === 'new' ? <ScheduleFormPage /> : <SchedulePage key={id} id={id} />;
}

function LimiterView({ id }: { id: string }) {
  return id === 'new' ? <LimiterFormPage /> : <LimiterPage key={id} id={id} />;
}

export function App() {
  const [client, setClient] = useState<Client | null>(() => {
    const token = storedToken();
    return token === null ? null : clientWith(token);
  });
  const route = useRoute();
  const view = VIEWS[route.view] ?? VIEWS['overview'];
  useEffect(() => {
    document.title = `${view?.title ?? ''} · Sluice`;
  }, [view]);
  const [why, setWhy] = useState<string | null>(null);
  const signOut = useCallback((reason: string | null = null): void => {
    forgetToken();
    setWhy(reason);
    setClient(null);
  }, []);
  const main = useRef<HTMLElement>(null);
  const place = `${route.view}/${route.id}`;
  const known = useRef(place);
  useLayoutEffect(() => {
    if (known.current === place) return;
    known.current = place;
    // What was clicked is gone, and its page may have been scrolled far down.
    main.current?.focus();
    scrollTo(0, 0);
  }, [place]);
  if (client === null) return <SignIn why={why} onClient={setClient} />;
  const Page = view?.page ?? OverviewPage;
  return (
    <SessionContext.Provider value={{ client, signOut }}>
      <button type="button" class="skip" onClick={() => main.current?.focus()}>
        Skip to the content
      </button>
      <header class="bar">
        <a class="brand" href="#/overview">
          <img src={icon} alt="" width="22" height="22" />
          Sluice
        </a>
        <nav aria-label="Main">
          {Object.entries(VIEWS).map(([name, { title }]) => (
            <a key={name} href={`#/${name}`} aria-current={name === route.view ? 'page' : undefined}>
              {title}
            </a>
          ))}
          <a href="/docs">API</a>
        </nav>
        <button type="button" class="quiet" onClick={() => signOut()}>
          Sign out
        </button>
      </header>
      <main ref={main} tabIndex={-1}>
        <Page route={route} />
      </main>
    </SessionContext.Provider>
  );
}
